"""Recipes of classes made inside: made again at every exit, as the program makes them at every call.

Only classes of the plain metaclass, and only where making one runs no code but CPython's own: no
`__init_subclass__`, no `__set_name__`.  The class is made empty and its attributes are set one by one, so that
methods may refer to their class.
"""

from __future__ import annotations

import collections
import types
from typing import Any

from ..vocabulary.class_reads import bases_of, members_of, mro_of, name_of, qualname_of
from ..vocabulary.reasons import Interrupt
from .containers import display
from .recipe import Node, Recipe, Text, Walk, exact, type_name
from .typefacts import MISSING, lookup

#: given to the making itself: they decide the layout, or cannot be set later
_AT_ONCE = ("__module__", "__qualname__", "__doc__", "__slots__")


@exact(type)
def _class(walk: Walk, node: Node) -> Recipe:
    cls = node.obj
    own = dict(members_of(cls))
    _check(cls, own)
    start: dict[str, Any] = {name: own.pop(name) for name in _AT_ONCE if name in own}
    start.setdefault("__qualname__", qualname_of(cls))
    kind = walk.constant(type, "type")
    shell: Text = (kind, ".__new__(", kind, ", ", walk.part(name_of(cls)), ", ", *display(walk, bases_of(cls)), ", {")
    for name, value in start.items():
        shell += (f"{name!r}: ", walk.part(value), ", ")
    fills = tuple(
        (kind, ".__setattr__(", node, f", {name!r}, ", walk.part(value), ")")
        for name, value in own.items()
        # descriptors of slots, `__dict__` and `__weakref__` come with the class
        if not (type(value) in (types.MemberDescriptorType, types.GetSetDescriptorType) and value.__objclass__ is cls)
    )
    return Recipe(None, (*shell, "})"), fills)


def _check(cls: type, own: dict[str, Any]) -> None:
    """Making the class again must run nothing of the user's, and leave nothing out."""
    starts = lookup(mro_of(cls)[1], "__init_subclass__") is not vars(object)["__init_subclass__"]
    if starts or "__del__" in own or any(lookup(type(value), "__set_name__") is not MISSING for value in own.values()):
        raise Interrupt("result-object", f"{type_name(cls)} (a class created inside)")


_FIELD: type = type(vars(collections.namedtuple("_Named", "a"))["a"])


@exact(_FIELD)
def _field(walk: Walk, node: Node) -> Recipe:
    """A field of a named tuple."""
    index, doc = node.obj.__reduce__()[1]
    return Recipe((walk.constant(_FIELD, "tuplegetter"), "(", walk.part(index), ", ", walk.part(doc), ")"))
