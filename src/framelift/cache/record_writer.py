"""Writing: origins, objects and values of a capture as rows of JSON, each object and origin once."""

from __future__ import annotations

import types
from collections.abc import Container
from typing import Any

import torch

from .._core import is_a
from ..guards.checks import form_of
from ..guards.kinds import Guard, TensorFacts, immutable_leaf
from ..guards.sentences import where
from ..substitutes.python.abstract_classes import Answers
from ..vocabulary.origins import Origin
from ..vocabulary.own_code import own_file
from .code_hash import code_hash, holds_objects, nested
from .importable_names import name_for
from .objects import facts_of
from .plain_values import is_singleton, leaf_data
from .refusals import NotKept
from .value_checks import value_check_data

#: the fields of TensorFacts after the class, in order
TENSOR_FIELDS = tuple(TensorFacts.__slots__)[1:]
_SURFACE = own_file("surface", "")
#: breaks, and wrappers around functions of the program: nothing of them acts but what guards and breaks say
_DECORATORS = own_file("surface", "decorators.py")


class Writer:
    """The tables of one record.  `root` is the captured function, which the reader has in its hands.

    `pinned`: places of plain values of which the program asked which of equal ones they are.
    """

    def __init__(self, root: types.FunctionType, pinned: Container[Origin] = ()) -> None:
        self.objects: list[Any] = []
        self.origins: list[Any] = []
        self.places: dict[str, int] = {}  # the user's lines, as text
        self.codes: set[int] = set()  # ids of code objects whose hashes are written
        self._kept: list[Any] = []  # so that addresses stay theirs
        self._objects: dict[int, int] = {}
        self._origins: dict[Origin, int] = {}
        self._lines: dict[Any, str] = {}
        self._root, self._pinned = root, pinned
        self.object(root)

    def object(self, obj: Any) -> int:
        """The number of an object."""
        found = self._objects.get(id(obj))
        if found is not None:
            return found
        number = self._objects[id(obj)] = len(self.objects)
        self._kept.append(obj)
        self.objects.append(None)
        facts = facts_of(obj)
        if type(obj) is types.FunctionType:
            self._code(obj.__code__)
        name = None if obj is self._root else name_for(obj)
        self.objects[number] = [name, facts.kind, facts.plain, [self.value(part) for part in facts.parts]]
        return number

    def _code(self, code: types.CodeType) -> str:
        """The hash of a code object."""
        if holds_objects(code):
            raise NotKept("code holds an object that was put there", code.co_qualname)
        self.codes.update(map(id, nested(code)))
        return code_hash(code)

    def named(self, function: Any) -> int:
        """The number of a function that is found by its name alone."""
        number = self.object(function)
        if self.objects[number][0] is None:
            raise NotKept("a function in the graph or a guard has no name", str(function))
        return number

    def value(self, value: Any) -> Any:
        """A plain value, an object by its number, or a tuple of both."""
        if type(value) is str or type(value) is int:  # most are: without looking further
            return leaf_data(value)
        if type(value) is types.CodeType:
            return ["code", self._code(value)]
        if immutable_leaf(value) or type(value) is torch.Size:
            return leaf_data(value)
        if type(value) is tuple:
            return ["tuple of", [self.value(one) for one in value]]
        return ["object", self.object(value)]

    def origin(self, origin: Origin) -> int:
        """The number of an origin."""
        found = self._origins.get(origin)
        if found is not None:
            return found
        base = -1 if origin.base is None else self.origin(origin.base)
        if origin.step == "const":
            key: Any = self.value(origin.key)
        elif origin.step == "arg":
            key = list(origin.key)
        else:
            key = self.value(origin.key)
        number = self._origins[origin] = len(self.origins)
        self.origins.append([base, origin.step, key])
        return number

    # ---- guards

    def guard(self, guard: Guard) -> list[Any]:
        """[origin, kind, value, number of the line]."""
        place = self.places.setdefault(self.line(guard.line), len(self.places))
        return [self.origin(guard.origin), guard.kind, self._guarded(guard), place]

    def _guarded(self, guard: Guard) -> Any:
        kind, value = guard.kind, guard.value
        if type(value) is types.FunctionType and _may_act(value.__code__.co_filename):
            raise NotKept("a function of framelift's own, which may act while a frame is captured", value.__qualname__)
        if kind == "CODE":
            return self._code(value)
        if kind == "IS" and immutable_leaf(value) and not is_singleton(value) and guard.origin in self._pinned:
            raise NotKept("the program asks which of equal values it has", f"{guard.origin}")
        if kind == "HAS_KEY":
            raise NotKept("the program asks which of equal values it has", f"{guard.origin}")
        if kind in ("TYPE", "IS", "ABSENT"):
            return self.value(value)
        if kind == "KEYS":
            return [self.value(key) for key in value]
        if kind == "DUNDERS":
            mro, pairs = value
            return [[self.object(cls) for cls in mro], [[name, self.value(held)] for name, held in pairs]]
        if kind == "TENSOR":
            return self._tensor(value)
        if kind == "SAME":
            return self.origin(value)
        if kind in ("CHECK", "JOINT"):
            return self._check(guard)
        return leaf_data(value)

    def _tensor(self, facts: Any) -> list[Any]:
        if type(facts) is not TensorFacts:
            raise NotKept("a tensor that is guarded in a way of its own")
        return [self.object(facts.python_type), [leaf_data(getattr(facts, name)) for name in TENSOR_FIELDS]]

    def _check(self, guard: Guard) -> Any:
        check, words = guard.value[:2]
        if type(check) is Answers:
            asked = check.as_data()
            if asked is not None:
                return ["answers", [[self.object(cls), list(map(self.object, given)), a] for cls, given, a in asked]]
        form = form_of(check)
        if form is not None and guard.kind == "CHECK":
            return [form[0], [self.value(one) for one in form[1]], words]
        data = value_check_data(self, check, words)
        if data is not None:
            return data if guard.kind == "CHECK" else [*data, [self.origin(one) for one in guard.value[2]]]
        raise NotKept("a guard has no written form", f"{guard.origin} {words}")

    def line(self, line: Any) -> str:
        if not is_a(line, tuple):
            return line
        key = (id(line[0]), line[1])
        found = self._lines.get(key)
        if found is None:
            found = self._lines[key] = where(line)
            self._kept.append(line[0])
        return found

    def covers(self, code: types.CodeType) -> bool:
        """Return whether the hash of a code object is part of what was written."""
        return id(code) in self.codes


def _may_act(path: str) -> bool:
    return path.startswith(_SURFACE) and path != _DECORATORS
