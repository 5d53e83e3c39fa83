"""Writing: origins, objects and values of a capture as rows of JSON, each object and origin once."""

from __future__ import annotations

import types
from collections.abc import Container
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..bytecode.maker import source_of
from ..guards.checks import form_of
from ..guards.kinds import Guard, TensorFacts, TensorKey, immutable_leaf
from ..guards.sentences import Line, where
from ..substitutes.python.abstract_classes import Answers
from ..vocabulary.origins import Origin
from ..vocabulary.own_code import own_file
from ..vocabulary.places import Place, behind
from ..vocabulary.written_forms import NotKept
from .code_hash import code_hash, exact_hash, holds_objects, nested, with_source
from .importable_names import name_for
from .objects import facts_of
from .plain_values import is_singleton, leaf_data
from .value_checks import value_check_data

#: the fields of TensorFacts after the class, in order
TENSOR_FIELDS = tuple(TensorFacts.__slots__)[1:]
_SURFACE = own_file("surface", "")
#: breaks, and wrappers around functions of the program: nothing of them acts but what guards and breaks say
_DECORATORS = own_file("surface", "decorators.py")


class RecordWriter:
    """The tables of one record.  `root` is the captured function, which the reader has in its hands.

    `pinned`: places of plain values of which the program asked which of equal ones they are.
    """

    def __init__(self, root: types.FunctionType, pinned: Container[Origin] = ()) -> None:
        self.objects: list[Any] = []
        self.origins: list[Any] = []
        # id of a code object whose hash is written -> where it is found: its function, and its number in there
        self._codes: dict[int, list[Any] | None] = {}
        self._code_rows: list[tuple[list[Any], types.CodeType]] = []
        self._exact: list[tuple[int, types.CodeType]] = []  # the code of functions, with where these are found
        self._places: dict[Any, tuple[int, Any]] = {}  # instructions
        self._offsets: dict[int, dict[tuple[int | None, ...], int]] = {}  # of the first instruction at each position
        self._kept: list[Any] = []  # so that addresses stay theirs
        self._objects: dict[int, int] = {}
        self._origins: dict[Origin, int] = {}
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
            self._code(obj.__code__, number)
        name = None if obj is self._root else name_for(obj)
        self.objects[number] = [name, facts.kind, facts.plain, [self.value(part) for part in facts.parts]]
        return number

    def _code(self, code: types.CodeType, holder: int) -> str:
        """The hash of a function's code; `holder` as in `know`."""
        if holds_objects(code):
            raise NotKept("code holds an object that was put there", code.co_qualname)
        self._exact.append((holder, code))
        self.know(code, holder)
        return code_hash(code)

    def know(self, code: types.CodeType, holder: Any) -> None:
        """Code is found by its function: by the number of that, the number of its origin inverted, or its name."""
        self._kept.append(code)
        for number, one in enumerate(with_source(code)):
            if self._codes.get(id(one)) is None:
                self._codes[id(one)] = [holder, number]

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
            return self._code_value(value)
        if immutable_leaf(value) or type(value) is torch.Size:
            return leaf_data(value)
        if type(value) is tuple:
            return ["tuple of", [self.value(one) for one in value]]
        return ["object", self.object(value)]

    def _code_value(self, code: types.CodeType) -> list[Any]:
        """Code that is part of known code is what is there (`places` knows); other code has its file and its lines."""
        if holds_objects(code):
            raise NotKept("code holds an object that was put there", code.co_qualname)
        self._kept.append(code)
        for one in nested(code):
            self._codes.setdefault(id(one), None)
        row: list[Any] = ["code", None]
        self._code_rows.append((row, code))
        return row

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
        return [self.origin(guard.origin), guard.kind, self._guarded(guard), self.place(guard.line)]

    def _guarded(self, guard: Guard) -> Any:
        kind, value = guard.kind, guard.value
        if type(value) is types.FunctionType and _may_act(value.__code__.co_filename):
            raise NotKept("a function of framelift's own, which may act while a frame is captured", value.__qualname__)
        if kind == "CODE":
            return self._code(value, ~self.origin(guard.origin))
        pinned = kind == "IS" and immutable_leaf(value) and not is_singleton(value) and guard.origin in self._pinned
        if pinned or kind == "HAS_KEY":
            raise NotKept("the program asks which of equal values it has", f"{guard.origin}")
        if kind in ("TYPE", "IS", "ABSENT"):
            return self.value(value)
        if kind == "KEYS":
            return [["tensor"] if key is TensorKey else self.value(key) for key in value]
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
                return ["answers", [[self.object(owner), self.object(cls), answer] for owner, cls, answer in asked]]
        form = form_of(check)
        data = value_check_data(self, check, words) if form is None else None
        if form is not None:
            data = [form[0], [self.value(one) for one in form[1]], words]
        if data is not None:
            return data if guard.kind == "CHECK" else [*data, [self.origin(one) for one in guard.value[2]]]
        raise NotKept("a guard has no written form", f"{guard.origin} {words}")

    # ---- places in the source

    def place(self, line: Line) -> int:
        """The number of an instruction, or of a line as text."""
        key = line if is_a(line, str) else (id(line[0]), line[1])
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = len(self._places), line
        return found[0]

    def shown(self, made: Place | str) -> list[int] | None:
        """The numbers of the instructions of a place, or of a stack's text; None where they are in no known code."""
        flat = behind(made) or ()
        lines = [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]
        return [self.place(line) for line in lines] if all(map(self._instruction, lines)) else None

    def places(self) -> list[Any]:
        """The instructions by number, when all code is known: where their code is found, and the offset."""
        for row, code in self._code_rows:
            row[1] = self._codes[id(code)] or exact_hash(code)
        rows = [line for _, line in self._places.values()]
        return [line if is_a(line, str) else self._instruction(line) or where(line) for line in rows]

    def _instruction(self, line: tuple[types.CodeType, int]) -> list[Any] | None:
        """An instruction of known code.  Twins and resumed code keep the positions of what they were made from."""
        code, offset = source_of(line[0]), line[1]
        holder = self._codes.get(id(code))
        if offset >= 0 and holder is not None:
            if id(code) not in self._offsets:
                rows = [*enumerate(code.co_positions())]
                self._offsets[id(code)] = {position: 2 * unit for unit, position in reversed(rows)}
            offset = self._offsets[id(code)].get(_core.location(*line), -1 - len(code.co_varnames))
        return None if holder is None or ~offset >= len(code.co_varnames) else [*holder, offset]

    def exact(self) -> list[Any]:
        """The code of all functions, with its files and lines."""
        return [[holder, exact_hash(code)] for holder, code in self._exact]

    def covers(self, code: types.CodeType) -> bool:
        """Return whether the hash of a code object is part of what was written."""
        return id(code) in self._codes


def _may_act(path: str) -> bool:
    return path.startswith(_SURFACE) and path != _DECORATORS
