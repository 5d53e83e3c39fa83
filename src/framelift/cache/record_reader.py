"""Reading: rows of a record bound to the objects of this process, guard by guard, in the order they were made.

A guard on identity names an object by its number.  Where the number is met first, the object that is there now is
compared with what was written of it (objects.py); from then on the number is that object.  Two numbers are never one
object.  What is reached through a value is looked at only after the guards on the value itself, so no code of the
program runs: as in the native program, whose check of all guards follows.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from .._core import is_a
from ..guards.checks import CHECKS, as_check
from ..guards.kinds import Guard, TensorFacts, TensorKey, class_name, dict_keys, dunders, same_key
from ..guards.sentences import Line
from ..substitutes.python.abstract_classes import Answers, SubclassFact
from ..vocabulary.origins import STEPS, Origin, arg, const
from ..vocabulary.places import Place, place_of, stack_text
from ..vocabulary.written_forms import NotKept
from .code_hash import code_hash, exact_hash, with_source
from .importable_names import find
from .objects import facts_of
from .plain_values import holds_set, is_as_written, leaf_of
from .refusals import NotMine, Unbound
from .source_files import code_named
from .value_checks import VALUE_CHECK, value_check

_NOTHING = object()


class Reader:
    """The tables of one record, for one call of `root`."""

    def __init__(
        self, objects: list[Any], origins: list[Any], root: types.FunctionType, locals_: tuple[Any, ...]
    ) -> None:
        self._rows, self._origin_rows, self._locals = objects, origins, locals_
        self._bound: list[Any] = [_NOTHING] * len(objects)
        self._numbers: dict[int, int] = {}
        self._origins: list[Origin | None] = [None] * len(origins)
        self._values: list[Any] = [_NOTHING] * len(origins)
        self._codes: dict[int | str, list[types.CodeType]] = {}  # of a function, and inside it, by where that is found
        self.lines: list[Line] = []  # the places of the record
        self._bind(0, root)

    # ---- objects

    def object(self, number: int) -> Any:
        """The object of a number: bound already, or found by its name."""
        found = self._bound[number]
        if found is _NOTHING:
            name = self._rows[number][0]
            if name is None:
                raise Unbound(f"nothing leads to {self._shown(number)}")
            found = find(name)
            if found is None:
                raise NotMine(f"{self._shown(number)} is not there")
            self._bind(number, found)
        return found

    def _bind(self, number: int, obj: Any) -> None:
        """From now on the number is this object; or it is already."""
        bound = self._bound[number]
        if bound is obj:
            return
        name, kind, plain, parts = self._rows[number]
        if bound is not _NOTHING or self._numbers.setdefault(id(obj), number) != number:
            raise NotMine(f"{self._shown(number)} is another object")
        if name is not None and find(name) is not obj:
            raise NotMine(f"{'.'.join(name)} is another object")
        try:
            facts = facts_of(obj)
        except NotKept as error:
            raise NotMine(str(error)) from None
        if facts.kind != kind or facts.plain != plain or len(facts.parts) != len(parts):
            raise NotMine(f"{self._shown(number)} is not as it was")
        self._bound[number] = obj
        for data, part in zip(parts, facts.parts):
            self._is(data, part)

    def _shown(self, number: int) -> str:
        name, kind, plain, _ = self._rows[number]
        return ".".join(name) if name else f"a {kind} {plain[:3]}"

    def value(self, data: Any) -> Any:
        """A plain value, an object, or a tuple of both."""
        if type(data) is list:
            if data[0] == "object":
                return self.object(data[1])
            if data[0] == "tuple of":
                return tuple([self.value(one) for one in data[1]])
            if data[0] == "code":
                return self._code_inside(data[1])
        return leaf_of(data)

    def _code_of(self, holder: int | str) -> list[types.CodeType]:
        """The code of a function (by its number, its origin's, or its name), and the code inside it."""
        found = self._codes.get(holder)
        if found is None:
            if is_a(holder, str):
                code = code_named(holder)
            else:
                function = self.object(holder) if holder >= 0 else self.fetch(~holder)
                code = function.__code__ if type(function) is types.FunctionType else None
            if code is None:
                raise Unbound("nothing leads to a code object")
            found = self._codes[holder] = with_source(code)
        return found

    def _code_inside(self, where: Any) -> types.CodeType:
        """A code object that is part of known code."""
        if type(where) is str:
            raise Unbound("nothing leads to a code object")
        return self._code_of(where[0])[where[1]]

    def line(self, row: Any) -> Line:
        """A place in the source: an instruction of known code; or as text."""
        return row if type(row) is str else (self._code_of(row[0])[row[1]], row[2])

    def check_exact(self, rows: list[Any]) -> None:
        """Raise `NotMine` where code is written at other lines, or in another file."""
        for holder, wanted in rows:
            code = self._code_of(holder)[0]
            if exact_hash(code) != wanted:
                raise NotMine(f"{code.co_qualname} is written elsewhere, and the program looks at where it is")

    def _is(self, data: Any, present: Any) -> None:
        """Check that the present value is the one that was written; raises `NotMine`."""
        if type(data) is list and data[0] == "object":
            if self._bound[data[1]] is not present:
                self._bind(data[1], present)
        elif type(data) is list and data[0] == "tuple of":
            if type(present) is not tuple or len(present) != len(data[1]):
                raise NotMine(f"a tuple of {len(data[1])} is another object")
            for one, part in zip(data[1], present):
                self._is(one, part)
        elif type(data) is list and data[0] == "code":
            wanted = data[1] if type(data[1]) is str else exact_hash(self._code_inside(data[1]))
            if type(present) is not types.CodeType or exact_hash(present) != wanted:
                raise NotMine("the code of a frame or a generator is another one")
        elif not is_as_written(data, present):
            raise NotMine(f"{present!r:.80} was {data!r:.80}")

    def shown(self, data: list[Any]) -> Place:
        """A place for who looks at a break."""
        line = self.lines[data[0]] if len(data) == 1 else ""
        return Place(*data) if type(line) is str else place_of(*line)

    def stack(self, data: Any) -> str:
        """The text of a stack."""
        if type(data) is str:
            return data
        return stack_text(tuple([part for number in data for part in self.lines[number]]))

    # ---- origins

    def origin(self, number: int) -> Origin:
        """The origin of a number."""
        found = self._origins[number]
        if found is None:
            base, step, key = self._origin_rows[number]
            if step == "const":
                found = const(self.value(key))
            elif step == "arg":
                found = arg(*key)
            elif step in STEPS:
                found = self.origin(base).to(step, self.value(key))
            else:
                raise NotMine(f"an unknown step: {step}")
            self._origins[number] = found
        return found

    def fetch(self, number: int) -> Any:
        """The value at an origin, now."""
        found = self._values[number]
        if found is _NOTHING:
            base, step, key = self._origin_rows[number]
            if step == "const":
                found = self.value(key)
            elif step == "arg":
                found = self._locals[key[0]]
            else:
                try:
                    found = STEPS[step].fetch(self.fetch(base), self.value(key))
                except NotMine:
                    raise
                except Exception as error:
                    raise NotMine(f"{self.origin(number)} is not there: {type(error).__name__}") from None
            self._values[number] = found
        return found

    # ---- guards

    def guards(self, rows: list[Any], places: list[Any]) -> list[Guard]:
        """The guards of all rows, which name the user's lines by their places.  Those about an object that no guard has
        led to yet come after the others.
        """
        values: list[Any] = [None] * len(rows)
        waiting = list(range(len(rows)))
        while waiting:
            left = []
            for i in waiting:
                number, kind, data, _ = rows[i]
                try:
                    if self._origins[number] is None:
                        self.origin(number)
                    values[i] = self._guarded(number, kind, data)
                except Unbound:
                    left.append(i)
            if len(left) == len(waiting):
                number, kind, data, _ = rows[left[0]]
                self._guarded(number, kind, data)
                self.origin(number)
            waiting = left
        self.lines = [self.line(row) for row in places]
        return [
            Guard(self.origin(number), kind, value, self.lines[place])
            for (number, kind, _, place), value in zip(rows, values)
        ]

    def _guarded(self, number: int, kind: str, data: Any) -> Any:
        """Return the value that a guard compares with, its objects bound by those in this process."""
        bind = _BINDING.get(kind)
        if bind is not None:
            return bind(self, number, data)
        return data if type(data) in (str, int) else leaf_of(data)

    def _equal(self, number: int, data: Any) -> Any:
        if not holds_set(data):
            return data if type(data) in (str, int) else leaf_of(data)
        present = self.fetch(number)
        if not is_as_written(data, present):
            raise NotMine(f"{self.origin(number)} has another value")
        return present

    def _type(self, number: int, data: Any) -> Any:
        present = type(self.fetch(number))
        if data[0] != "object" or self._bound[data[1]] is not present:
            self._is(data, present)
        return present

    def _identity(self, number: int, data: Any) -> Any:
        present = self.fetch(number)
        self._is(data, present)
        return present

    def _tensor(self, number: int, data: Any) -> Any:
        self._is(["object", data[0]], type(self.fetch(number)))
        return TensorFacts(self.object(data[0]), *map(leaf_of, data[1]))

    def _absent(self, _number: int, data: Any) -> Any:
        return data if type(data) is str else self.value(data)

    def _same(self, _number: int, data: int) -> Origin:
        return self.origin(data)

    def _code(self, number: int, data: str) -> types.CodeType:
        function = self.fetch(number)
        if type(function) is not types.FunctionType or code_hash(function.__code__) != data:
            raise NotMine(f"the code of {self.origin(number)} is another one")
        return function.__code__

    def _keys(self, number: int, data: list[Any]) -> tuple[Any, ...]:
        table = self.fetch(number)
        if not is_a(table, dict):
            raise NotMine(f"{self.origin(number)} is no dictionary")
        keys = dict_keys(table)
        wanted = tuple([TensorKey if one == ["tensor"] else key for one, key in zip(data, keys)])
        if len(keys) != len(data) or not all(map(same_key, keys, wanted)):
            raise NotMine(f"{self.origin(number)} has other keys")
        for one, key in zip(data, wanted):
            if key is not TensorKey and (type(one) is not str or type(key) is not str or one != key):
                self._is(one, key)
        return wanted

    def _dunders(self, number: int, data: Any) -> Any:
        mro, pairs = data
        cls = self.fetch(number)
        if not is_a(cls, type):
            raise NotMine(f"{self.origin(number)} is no class")
        now = dunders(cls)
        if len(now[0]) != len(mro) or [name for name, _ in now[1]] != [name for name, _ in pairs]:
            raise NotMine(f"{class_name(cls)} has other special methods")
        for wanted, base in zip(mro, now[0]):
            self._bind(wanted, base)
        for (_, held), (_, data) in zip(now[1], pairs):
            self._is(data, held)
        return now

    def _joint(self, number: int, data: Any) -> Any:
        *check, others = data
        return *self._check(number, check), tuple([self.origin(one) for one in others])

    def _check(self, _number: int, data: Any) -> Any:
        if data[0] == VALUE_CHECK:
            return value_check(self, data)
        if data[0] != "answers":
            check = CHECKS.get(data[0])
            if check is None:
                raise NotMine(f"an unknown check: {data[0]}")
            given = [self.value(one) for one in data[1]]
            return as_check(check, *given), data[2]
        answers = Answers()
        for asked, given, answer in data[1]:
            fact = SubclassFact(self.object(asked), self.object(given), answer)
            if not fact():
                raise NotMine("an abstract class answers otherwise")
            answers.facts.append(fact)
        return answers, "answers as before"


#: kind of a guard -> how its row is bound; all others hold plain values
_BINDING: dict[str, Callable[[Reader, int, Any], Any]] = {
    "EQ": Reader._equal,
    "TYPE": Reader._type,
    "IS": Reader._identity,
    "CODE": Reader._code,
    "KEYS": Reader._keys,
    "ABSENT": Reader._absent,
    "DUNDERS": Reader._dunders,
    "TENSOR": Reader._tensor,
    "SAME": Reader._same,
    "CHECK": Reader._check,
    "JOINT": Reader._joint,
}
