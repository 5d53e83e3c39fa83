"""The data flow of a code object: values on the stack and locals that are needed, at each instruction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from opcode import HAVE_ARGUMENT, opmap, stack_effect
from sys import version_info
from types import CodeType

from .assembly import Op, disassemble
from .decode import LOCALS, local_name

_NO_NEXT = frozenset(
    (
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
    )
)
#: what the end of a FOR_ITER jumps over: it takes the iterator off by itself, only a generator run in place comes by
#: here
_LOOP_END = ("END_FOR", "POP_TOP")[: max(0, min(2, version_info[1] - 11))]
#: instructions about local variables that push a cell where that is what the variable's place holds
_LOADS_CELL = frozenset(("LOAD_FAST", "LOAD_FAST_BORROW")) if opmap["LOAD_CLOSURE"] > 255 else frozenset()
#: functions that see all locals of their caller
LOOKS_AT_LOCALS = frozenset(("locals", "vars", "eval", "exec", "dir"))
#: the parts of one call, which hand more than the stack to each other (KW_NAMES does)
_CALL_PARTS = ("PRECALL", "KW_NAMES")
#: from CPython 3.14 on: what enters a `with` block, which is one instruction before
_ENTERS = ("COPY", "LOAD_SPECIAL", "SWAP", "SWAP", "LOAD_SPECIAL", "CALL")


@dataclass(frozen=True, slots=True)
class Shape:
    """The stack before an instruction: its depth, and which slots hold a saved exception state or an offset."""

    depth: int
    saved: tuple[int, ...] = ()  # what PUSH_EXC_INFO put aside: one for each handler being run
    offsets: tuple[int, ...] = ()  # where an exception came from, as an offset for RERAISE
    kept: tuple[tuple[int, str], ...] = ()  # what an inlined comprehension put aside of the variables its own ones hide

    def cut(self, depth: int) -> Shape:
        """The same up to a depth."""
        return Shape(
            depth,
            tuple(s for s in self.saved if s < depth),
            tuple(s for s in self.offsets if s < depth),
            tuple(row for row in self.kept if row[0] < depth),
        )


class Flow:
    """A code object's instructions with shapes and live locals; instructions by `at[unit]`."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.ops = disassemble(code)
        self.at = {op.unit: op for op in self.ops}
        self.number = {op.unit: i for i, op in enumerate(self.ops)}
        self.shapes: dict[int, Shape] = {}
        self._shape_all()
        self._live: dict[int, int] | None = None
        self._left: dict[int, tuple[Op, int]] | None = None
        self._loops: list[tuple[int, int]] | None = None  # from where to where jumps go back

    def following(self, op: Op) -> list[Op]:
        """Where control goes after an instruction that raised nothing."""
        found = [self._target(op)] if op.target is not None else []
        if op.name not in _NO_NEXT:
            found.append(self.ops[self.number[op.unit] + 1])
        return found

    def left_block(self, op: Op) -> tuple[Op, int] | None:
        """The handler of a `with` or `finally` block that ends just before `op`, where what ends it has not run yet.

        Its normal end is not covered by the block's own handler: an exception there would leave the block open.
        """
        if self._left is None:
            self._left = {}
            for before in self.ops:
                for each in self.following(before) if before.handler is not None and before.unit in self.shapes else ():
                    found = self._block_between(before, each)
                    if found is not None:
                        self._left[each.unit] = found
        return self._left.get(op.unit)

    def _block_between(self, before: Op, op: Op) -> tuple[Op, int] | None:
        own = op.handler[0] if op.handler is not None else None
        handler = before.handler
        while handler is not None and handler[0] is not own:
            if handler[1] >> 1 <= self.shapes[op.unit].depth and self._cleans_up(handler[0]):
                return handler
            handler = handler[0].handler
        return None

    def is_local(self, op: Op) -> bool:
        """Return whether an instruction about a variable is about the frame's own value of it, not about its cell."""
        code = self.code
        if op.op in LOCALS:
            is_plain = op.arg < len(code.co_varnames) and local_name(code, op.arg) not in code.co_cellvars
            if is_plain or op.name not in _LOADS_CELL:
                return True
        return op.unit in self.shapes and local_name(code, op.arg) in self.hidden(op.unit)

    def is_of_with(self, handler: Op) -> bool:
        """Return whether a handler is that of a `with` block."""
        return handler.name == "PUSH_EXC_INFO" and self.following(handler)[0].name == "WITH_EXCEPT_START"

    def entries(self, unit: int) -> Iterator[int]:
        """Where `with` blocks around an instruction begin, innermost first: a manager's making, or the entering."""
        handler = self.at[unit].handler
        while handler is not None:
            if self.is_of_with(handler[0]):
                first = next(i for i, op in enumerate(self.ops) if op.handler and op.handler[0] is handler[0])
                entering = self.whole(self.ops[first - 1].unit)
                made = self.ops[self.number[entering] - 1]
                yield self.whole(made.unit) if made.name == "CALL" else entering
            handler = handler[0].handler

    def _cleans_up(self, handler: Op) -> bool:
        """Return whether a handler is there for every exception and raises it again: that of a `with` or a
        `finally`.
        """
        if handler.name != "PUSH_EXC_INFO":
            return False
        first = self.following(handler)[0]
        if first.name in ("WITH_EXCEPT_START", "POP_TOP"):  # the second: of `except:`
            return first.name == "WITH_EXCEPT_START"
        seen: set[int] = set()
        pending = [first]
        while pending:
            op = pending.pop()
            if op.unit in seen:
                continue
            seen.add(op.unit)
            if op.name in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH"):
                return False
            pending += self.following(op)
        return True

    def part(
        self, start: int, stops: frozenset[int], marks: Iterable[int], handler: tuple[Op, int] | None = None
    ) -> list[Op]:
        """Copies of the instructions that may run from `start` on, in their order; at `stops` the way ends.

        `handler`: one that may run besides.

        There, and at `marks`, which are only asked for their places in the source, instructions that do nothing are
        left.
        """
        reached = {start}
        pending = [self.at[start]]
        if handler is not None:
            reached.add(handler[0].unit)
            pending.append(handler[0])
        while pending:
            op = pending.pop()
            nexts = self.following(op)
            if op.target is not None:
                nexts.append(op.target)
            if op.handler is not None:
                nexts.append(op.handler[0])
            for each in nexts:
                if each.unit not in reached:
                    reached.add(each.unit)
                    if each.unit not in stops:
                        pending.append(each)
        idle = (reached & stops | {unit for unit in marks if unit in self.at and unit not in reached}) - {start}
        nothing = opmap["NOP"]
        at = {
            unit: Op(nothing, 0, 0, op.position, None, None, unit)
            if unit in idle
            else Op(op.op, op.arg, op.caches, op.position, None, None, unit)
            for unit, op in self.at.items()
            if unit in reached or unit in idle
        }
        handlers: dict[int, tuple[Op, int]] = {}  # one for all instructions of a range
        for unit, made in at.items():
            op = self.at[unit]
            if unit in idle:
                continue
            if op.target is not None:
                made.target = at[op.target.unit]
            if op.handler is not None:
                handler = handlers.get(id(op.handler))
                if handler is None:
                    handler = handlers[id(op.handler)] = (at[op.handler[0].unit], op.handler[1])
                made.handler = handler
        return list(at.values())

    def _target(self, op: Op) -> Op:
        """Where a jump really leads."""
        target = op.target
        assert target is not None
        if op.name == "FOR_ITER":
            target = self.ops[self.number[target.unit] + len(_LOOP_END)]
        return target

    def _entering(self, number: int) -> int | None:
        """The number of the first instruction of what enters a `with` block, if the one at `number` is part of it."""
        if self.ops[number].name in _ENTERS:
            for first in range(max(number - len(_ENTERS) + 1, 0), number + 1):
                if tuple(op.name for op in self.ops[first : first + len(_ENTERS)]) == _ENTERS:
                    return first
        return None

    def whole(self, unit: int) -> int:
        """The first unit of the call that the instruction at `unit` is part of; otherwise its own."""
        number = self.number[unit]
        entering = self._entering(number)
        if entering is not None:
            return self.ops[entering].unit
        if self.ops[number].name in ("CALL", *_CALL_PARTS):
            while self.ops[number - 1].name in _CALL_PARTS:
                number -= 1
        return self.ops[number].unit

    def last(self, unit: int) -> Op:
        """The last instruction of what begins at `unit` as `whole` says."""
        number = self.number[unit]
        entering = self._entering(number)
        if entering is not None:
            return self.ops[entering + len(_ENTERS) - 1]
        while self.ops[number].name in _CALL_PARTS:
            number += 1
        return self.ops[number]

    def live(self, unit: int) -> tuple[str, ...]:
        """The names of locals that may be read from here on."""
        if self._live is None:
            self._live = self._live_all()
        bits, looks = self._live[unit], bool(LOOKS_AT_LOCALS.intersection(self.code.co_names))
        names = enumerate(self.code.co_varnames)  # nothing finds those of a comprehension's iterator, and of a stack
        return tuple(name for i, name in names if bits >> i & 1 or looks and not name.startswith("."))

    def hidden(self, unit: int) -> tuple[str, ...]:
        """Variables with a cell whose slot holds, inside an inlined comprehension, one of the comprehension's."""
        return tuple(dict.fromkeys(name for _, name in self.shapes[unit].kept if name in self.code.co_cellvars))

    def touched(self, start: int, end: int | None) -> frozenset[str]:
        """The names of locals that may be read on some way from one instruction to another, or to wherever it ends."""
        code = self.code
        if LOOKS_AT_LOCALS.intersection(code.co_names):
            return frozenset(code.co_varnames)
        back: dict[int, list[int]] = {}
        pending, reached = [start], {start}
        once = end is not None and end != start and not self.comes_back(end)  # then no path continues behind it
        while pending:
            op = self.at[pending.pop()]
            if once and op.unit == end:
                continue
            nexts = [each.unit for each in self.following(op)] + (
                [op.handler[0].unit] if op.handler is not None else []
            )
            for unit in nexts:
                back.setdefault(unit, []).append(op.unit)
                if unit not in reached:
                    reached.add(unit)
                    pending.append(unit)
        pending, between = ([end], {end}) if end is not None else ([], reached)
        while pending:
            found = [unit for unit in back.get(pending.pop(), ()) if unit not in between]
            between.update(found)
            pending += found
        ops = [self.at[unit] for unit in between]
        return frozenset(
            [
                *code.co_cellvars,
                *(local_name(code, op.arg) for op in ops if op.op in LOCALS and not op.name.startswith("STORE")),
            ]
        )

    def comes_back(self, unit: int) -> bool:
        """Return whether control may come to an instruction twice: then some jump goes back over it."""
        if self._loops is None:
            edges = [
                (op.unit, each.unit)
                for op in self.ops
                for each in (op.target, op.handler[0] if op.handler is not None else None)
                if each is not None
            ]
            self._loops = [(to, come) for come, to in edges if to <= come]
        return any(to <= unit <= come for to, come in self._loops)

    # ---- stack ----

    def _shape_all(self) -> None:
        pending = [(self.ops[0], Shape(0))]
        while pending:
            op, shape = pending.pop()
            if op.unit in self.shapes:
                continue
            self.shapes[op.unit] = shape
            if op.handler is not None:
                target, mark = op.handler
                depth, lasti = mark >> 1, mark & 1
                kept = shape.cut(depth)
                pending.append(
                    (target, Shape(depth + 1 + lasti, kept.saved, kept.offsets + (depth,) * lasti, kept.kept))
                )
            if op.target is not None:
                pending.append((self._target(op), self._after(op, shape, True)))
            if op.name not in _NO_NEXT:
                pending.append((self.ops[self.number[op.unit] + 1], self._after(op, shape, False)))

    def _after(self, op: Op, shape: Shape, jump: bool) -> Shape:
        if op.name == "FOR_ITER" and jump:
            return shape.cut(shape.depth - 1)
        depth = shape.depth + stack_effect(op.op, op.arg if op.op >= HAVE_ARGUMENT else None, jump=jump)
        cut = shape.cut(depth)
        if op.name == "PUSH_EXC_INFO":
            return Shape(depth, (*cut.saved, shape.depth - 1), cut.offsets, cut.kept)
        if op.name == "POP_EXCEPT":
            return Shape(depth, shape.saved[:-1], cut.offsets, cut.kept)
        if op.name == "LOAD_FAST_AND_CLEAR":
            return Shape(depth, cut.saved, cut.offsets, (*cut.kept, (shape.depth, local_name(self.code, op.arg))))
        if op.name == "SWAP" and cut.kept:
            places = {depth - 1: depth - op.arg, depth - op.arg: depth - 1}
            return Shape(depth, cut.saved, cut.offsets, tuple((places.get(at, at), name) for at, name in cut.kept))
        return cut

    # ---- locals ----

    def _live_all(self) -> dict[int, int]:
        live = dict.fromkeys(self.at, 0)
        changed = True
        while changed:
            changed = False
            for op in reversed(self.ops):
                after = 0
                for each in self.following(op):
                    after |= live[each.unit]
                if op.op in LOCALS:
                    bit = 1 << op.arg
                    after = after & ~bit if op.name.startswith("STORE") else after | bit
                for handler in (op.handler, self.left_block(op)):
                    after |= live[handler[0].unit] if handler is not None else 0
                if after != live[op.unit]:
                    live[op.unit] = after
                    changed = True
        return live
