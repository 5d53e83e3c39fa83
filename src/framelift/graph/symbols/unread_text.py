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
    """A text that may be handed around and put into other texts.

    `letters` is what is known of it: a text in which the mark stands for what is not.
    """

    __slots__ = ("letters",)
    letters: str

    def __new__(cls, letters: str = MARK) -> UnreadText:
        self = str.__new__(cls, MARK)
        object.__setattr__(self, "letters", letters)
        return self

    @property  # type: ignore[misc]  # object's can be assigned to
    def __class__(self) -> type:
        return str

    def __bool__(self) -> bool:
        return True  # no value has an empty text

    def __str__(self) -> str:
        return self

    def __repr__(self) -> str:
        return _with(self, MARK)  # in quotes, with signs for some letters

    def __format__(self, spec: str) -> str:
        str.__format__("", spec)  # raises as for any other text
        if "." in spec:  # it may be cut to nothing
            _core.text_is_read()
        return _with(self, MARK) if spec else self

    def __add__(self, other: Any) -> Any:
        if type(other) in (str, UnreadText):
            return _with(self, self.letters + known_letters(other))
        return _core.text_is_read() if is_a(other, str) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        if type(other) is str:
            return _with(self, other + self.letters)
        return _core.text_is_read() if is_a(other, str) else NotImplemented

    def __contains__(self, part: Any) -> bool:
        known = type(part) is str and any(part in piece for piece in self.letters.split(MARK))
        return True if known else _core.text_is_read()

    def startswith(self, start: Any, *places: Any) -> bool:
        return _begins(self.letters.partition(MARK)[0], start, places)

    def endswith(self, end: Any, *places: Any) -> bool:
        backwards = end[::-1] if type(end) is str else end
        return _begins(self.letters.rpartition(MARK)[2][::-1], backwards, places)

    def replace(self, old: Any, new: Any, *count: Any) -> Any:
        """A text again, where something is left of it for sure."""
        if not type(old) is type(new) is str or any(type(number) is not int for number in count):
            return _core.text_is_read()
        stays = new or any(letter not in old for letter in self.letters.replace(MARK, ""))
        return _with(self, MARK) if stays else _core.text_is_read()


def known_letters(text: str) -> str:
    """Return the known letters of a text that C code may have made of such texts: `%20s` pads the mark."""
    if type(text) is UnreadText:
        return text.letters
    first, *others = text.split(MARK)
    pieces = [first, *(piece.lstrip(" ") for piece in others)]
    pieces = [*(piece.rstrip(" ") for piece in pieces[:-1]), pieces[-1]]
    cut = any(letter in piece for piece in pieces for letter in MARK) or ascii(MARK)[1:9] in text
    return MARK if cut else MARK.join(pieces)


def _with(text: UnreadText, letters: str) -> UnreadText:
    """Another such text of these letters; the text itself where none may be made now."""
    made = _core.unread_text()
    object.__setattr__(text if made is None else made, "letters", MARK if made is None else letters)
    return text if made is None else made


def _begins(known: str, start: Any, places: tuple[Any, ...]) -> bool:
    if type(start) is not str or places:
        return _core.text_is_read()
    if known.startswith(start):
        return True
    return _core.text_is_read() if start.startswith(known) else False


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


def text_or(known: Any, letters: str = MARK) -> str:
    """A text that is not known yet, or what `known()` gives where the session wants the text itself."""
    text = _core.unread_text()
    if text is None:
        return known()
    object.__setattr__(text, "letters", letters)
    return text
