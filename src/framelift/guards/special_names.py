"""Which entries of a class decide what C code does with it or with its instances.  No other entry is part of a DUNDERS
guard.

Python code reads special names through probes, each with a guard of its own.  C code looks them up unseen.  It
looks for methods and descriptors, and for a None that takes a method away.  Any other object under a name with
underscores is a record that somebody left on the class: `copyreg` its `__slotnames__`, a library its schemas.
Such records come and go while a program runs.
"""

from __future__ import annotations

import operator
from typing import Any

from .. import _core


def _names(text: str) -> frozenset[str]:
    return frozenset(f"__{name}__" for name in text.split())


#: special methods that C code calls past the probes
CALLED = _names("""
    repr str bytes format hash bool len length_hint iter next reversed contains getitem setitem delitem missing lt
    le eq ne gt ge get set delete init new del enter exit aenter aexit await aiter anext index int float complex
    trunc floor ceil round neg pos abs invert add radd iadd sub rsub isub mul rmul imul matmul rmatmul imatmul
    truediv rtruediv itruediv floordiv rfloordiv ifloordiv mod rmod imod divmod rdivmod pow rpow ipow lshift rlshift
    ilshift rshift rrshift irshift and rand iand or ror ior xor rxor ixor instancecheck subclasscheck fspath sizeof
    reduce reduce_ex getstate set_name prepare getattribute getattr setattr delattr
""")
#: names that matter whatever they hold: C code reads them, or fails where they hold something it cannot call
_ALWAYS = CALLED | _names("call getattribute getattr setattr delattr dir class abstractmethods array_priority")
#: what says nothing about behaviour, though it may be a descriptor
_NEVER = _names("dict weakref doc module annotations")


def behaviour_of(cls: type) -> tuple[tuple[str, Any], ...]:
    """Return the definitions in the Python-made classes of the MRO: by name, that of the first class that has it."""
    return tuple(sorted(_core.behaviour_of(cls).items(), key=operator.itemgetter(0)))


_core.connect(always_behaviour=_ALWAYS, never_behaviour=_NEVER)
