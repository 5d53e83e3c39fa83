"""Finding instructions that their opcode alone does not distinguish: finished functions, and calls of decorators.

A decorator is called as [decorator][function] with no argument count, which reads like any call without
arguments.  It is found by what comes before it: the making of a `def` function, a class statement's call, or
another decorator's call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from opcode import EXTENDED_ARG, HAVE_ARGUMENT, hasjrel, opmap, opname, stack_effect
from types import CodeType

_MAKE_FUNCTION = opmap["MAKE_FUNCTION"]
_GENERIC = "<generic parameters of "


@dataclass(frozen=True, slots=True)
class DialectMarks:
    """A dialect's marker.

    `call` is the first opcode of a call and `span` the code units of a whole one; `part` is the opcode that may follow
    MAKE_FUNCTION to complete a function, and where there is one, the last instruction of each making is marked too.
    """

    call: str
    span: int
    part: str | None = None

    def __call__(self, code: CodeType, ops: bytes, args: bytes) -> set[int]:
        """Code units of decorator calls, and of the last instruction of each function's making where asked."""
        found: set[int] = set()
        made = ops.find(_MAKE_FUNCTION)
        while made >= 0:
            last = made
            if self.part:
                while ops[last + 1] == opmap[self.part]:
                    last += 1
                found.add(last)
            body = code.co_consts[_argument(ops, args, made - 1)]
            found.update(self._decorations(body, ops, args, last + 1))
            made = ops.find(_MAKE_FUNCTION, made + 1)
        return found

    def _decorations(self, body: CodeType, ops: bytes, args: bytes, after: int) -> Iterator[int]:
        call = opmap[self.call]
        if body.co_name.startswith(_GENERIC):
            # The function of type parameters is called at once; decorators take what that returns.
            after = ops.index(call, after) + self.span
        elif not body.co_flags & CO_OPTIMIZED:
            after = _class_made(ops, args, after)
        elif body.co_name.startswith("<"):
            return
        while ops[after] == call and args[after] == 0:
            yield after
            after += self.span


def _argument(ops: bytes, args: bytes, unit: int) -> int:
    """The argument of the instruction at `unit`, prefixes included."""
    arg, shift = args[unit], 8
    while unit and ops[unit - 1] == EXTENDED_ARG:
        unit -= 1
        arg |= args[unit] << shift
        shift += 8
    return arg


def _class_made(ops: bytes, args: bytes, unit: int) -> int:
    """The unit after the call that makes a class, from the one after its body was made into a function.

    Base classes and keywords are expressions, in which only what a jump skipped can follow it.  So the stack's
    depth can be followed in the order of the instructions until the call takes [NULL][__build_class__][body] away.
    """
    depth = 0
    at_label: dict[int, int] = {}
    while True:
        depth = at_label.get(unit, depth)
        arg = args[unit]
        while ops[unit] == EXTENDED_ARG:
            unit += 1
            arg = arg << 8 | args[unit]
        op = ops[unit]
        unit += 1
        while ops[unit] == 0:
            unit += 1
        value = arg if op >= HAVE_ARGUMENT else None
        if op in hasjrel and "BACKWARD" not in opname[op]:
            at_label.setdefault(unit + arg, depth + stack_effect(op, value, jump=True))
        depth += stack_effect(op, value, jump=False)
        if depth == -2:
            return unit
