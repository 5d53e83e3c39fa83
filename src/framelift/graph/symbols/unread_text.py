"""Texts of values that only a run of the graph knows: what an f-string makes of a tensor.

Programs make many of them that nobody reads: messages of checks that do not fail.  Captured code gets an `UnreadText`
then.  Whoever reads its letters ends the rehearsal, and the next one breaks where the text is made
(csrc/texts.cpp finds C code that would read them).
"""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._core import is_a

#: the letters of such a text, which no program writes
MARK = "\U0010fffe\U0010fff6\U0010fffe"


class UnreadText(str):
    """A text that may be handed around and put into other texts."""

    __slots__ = ()

    def __new__(cls) -> UnreadText:
        return str.__new__(cls, MARK)

    @property  # type: ignore[misc]  # object's can be assigned to
    def __class__(self) -> type:
        return str

    def __bool__(self) -> bool:
        return True  # no value has an empty text

    def __str__(self) -> str:
        return self

    def __repr__(self) -> str:
        return _another(self)  # in quotes, with signs for some letters

    def __format__(self, spec: str) -> str:
        str.__format__("", spec)  # raises as for any other text
        if "." in spec:  # it may be cut to nothing
            _core.text_is_read()
        return _another(self) if spec else self

    def __add__(self, other: Any) -> Any:
        if type(other) in (str, UnreadText):
            return _another(self)
        return _core.text_is_read() if is_a(other, str) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        if type(other) is str:
            return _another(self)
        return _core.text_is_read() if is_a(other, str) else NotImplemented


def _another(text: UnreadText) -> UnreadText:
    """Another such text; the text itself where none may be made now."""
    return _core.unread_text() or text


def _refuses(name: str) -> Any:
    def method(self: Any, *_args: Any, **_kwargs: Any) -> Any:
        _core.text_is_read()

    method.__name__ = name
    return method


#: what says nothing about the letters
_ANSWERED = frozenset(vars(UnreadText)) | {"__getattribute__", "__init__", "__init_subclass__", "__subclasshook__"}
for _name, _member in {**vars(object), **vars(str)}.items():
    if _name not in _ANSWERED and callable(_member):
        setattr(UnreadText, _name, _refuses(_name))
for _name in ("__rmul__", "__rmod__"):
    setattr(UnreadText, _name, _refuses(_name))
UnreadText.__name__ = "str"  # in messages of Python's
UnreadText.__doc__ = str.__doc__


def text_or(known: Any) -> str:
    """A text that is not known yet, or what `known()` gives where the session wants the text itself."""
    text = _core.unread_text()
    return known() if text is None else text
