"""Objects of C types that nothing knows, given to C functions.

What those say of a placeholder is nothing of the object's.
"""

import array
import binascii
import collections
import copy
import decimal
import functools
import hashlib
import io
import itertools
import re
import struct
import threading

import pytest
import torch

import framelift

OBJECTS = {
    "array": lambda: array.array("B", [97, 98, 99]),
    "memoryview": lambda: memoryview(b"abc"),
    "stream": lambda: io.BytesIO(b"abc"),
    "tee": lambda: itertools.tee([1, 2, 3])[0],
    "lock": threading.Lock,
    "dictionary keyed by objects": lambda: {object(): 1},
}
USES = {
    "callable": callable,
    "copy": lambda v: type(copy.copy(v)).__name__,
    "hexlify": binascii.hexlify,
    "unpack": lambda v: struct.unpack("3B", v),
    "unpack_from": lambda v: struct.unpack_from("B", v, 1),
    "from_bytes": lambda v: int.from_bytes(v, "big"),
    "ord": ord,
    "get": lambda v: dict.get(v, 1),
    "append": lambda v: list.append(v, 4),
    "isinstance": lambda v: isinstance(v, (array.array, dict)),
    "stream of it": lambda v: io.BytesIO(v).read(),
    "found in bytes": lambda v: b"xabc".find(v),
    "joined": lambda v: b"-".join(v),
    "added to a bytearray": lambda v: bytearray(b"x").replace(b"x", v),
    "matched": lambda v: _PATTERN.match(v).span(),
    "hashed": lambda v: _hash(v),
    "of a struct": lambda v: struct.Struct("3B").unpack(v),
    "sorted in place": lambda v: list.sort(v),
    "replaced": lambda v: _PATTERN.sub(b"x", v),
    "partial": lambda v: functools.partial(len, v).args[0] is v,
    "error": lambda v: KeyError(v).args[0] is v,
    "deque": lambda v: len(collections.deque((v,))),
}


_PATTERN = re.compile(b"ab")


def _hash(value):
    made = hashlib.md5(b"")
    made.update(value)
    return made.hexdigest()


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("use", USES)
def test_what_c_code_says_of_it(use, kind, monkeypatch):
    def f(x):
        try:
            found = USES[use](HELD)
        except (TypeError, AttributeError, ValueError) as error:
            found = type(error).__name__, str(error)
        return x + 1, found

    seen = []
    for wrap in (lambda g: g, lambda g: framelift.compile(g, backend="eager")):
        monkeypatch.setitem(globals(), "HELD", OBJECTS[kind]())
        target = wrap(f)
        seen.append([target(torch.ones(2))[1] for _ in range(2)])
    assert seen[0] == seen[1]


HELD = None
