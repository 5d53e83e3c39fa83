"""Which way a branch goes unless the program is about to fail: the side that does not only raise.

A guess about the program, never a fact: whoever follows it must be able to find out later that it was wrong.
"""

from __future__ import annotations

from opcode import opmap
from types import CodeType

from .decode import Instruction, instructions, jump_target

_MOST_STEPS = 400
_RAISES = frozenset({"RAISE_VARARGS", "RERAISE"})
_LEAVES = frozenset({"RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE", "SEND"})
_ALWAYS_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
#: instructions between a test and its jump, and whether they turn the truth round
_BETWEEN = {"UNARY_NOT": True, "TO_BOOL": False}
#: the bit of a comparison's argument that says that it asks its own result for its truth; where there is TO_BOOL
_ASKS = 16 if "TO_BOOL" in opmap else 0


def unless_it_raises(code: CodeType, offset: int) -> bool | None:
    """The truth of the value tested at `offset` (a frame's `f_lasti`) for which the frame does not only raise.

    None where neither the instruction nor what follows a call there is a test, or where both sides or neither only
    raise.
    """
    found = list(instructions(code.co_code))
    at = {one.start: i for i, one in enumerate(found)}
    index = _at(found, offset)
    if index is None:
        return None
    turned = False
    if found[index].name == "CALL" or found[index].name == "COMPARE_OP" and found[index].arg & _ASKS:
        index += 1
    while found[index].name in _BETWEEN and index + 1 < len(found):
        turned ^= _BETWEEN[found[index].name]
        index += 1
    test = found[index]
    wanted = test.name.rpartition("_IF_")[2]
    target = jump_target(test)
    if not test.name.startswith("POP_JUMP") or wanted not in ("TRUE", "FALSE") or target is None:
        return None
    jumping = _only_raises(found, at, target)
    falling = _only_raises(found, at, test.end)
    if jumping == falling:
        return None
    # The truth that jumps is `wanted`; the frame resumes where it does not only raise.
    return ((wanted == "TRUE") == falling) != turned


def after_call(code: CodeType, offset: int) -> str:
    """The name of the instruction that follows the call at `offset`; "" where there is none."""
    found = list(instructions(code.co_code))
    index = _at(found, offset)
    return "" if index is None or found[index].name != "CALL" else found[index + 1].name


def _at(found: list[Instruction], offset: int) -> int | None:
    return next((i for i, one in enumerate(found) if one.start <= offset // 2 < one.end), None)


def _only_raises(found: list[Instruction], at: dict[int, int], start: int) -> bool:
    """Return whether every way on from `start` ends by raising."""
    ahead, seen = [start], set()
    while ahead:
        unit = ahead.pop()
        while unit not in seen:
            seen.add(unit)
            index = at.get(unit)
            if index is None or len(seen) > _MOST_STEPS:
                return False
            one = found[index]
            if one.name in _RAISES:
                break
            if one.name in _LEAVES:
                return False
            target = jump_target(one)
            if one.name in _ALWAYS_JUMPS and target is not None:
                unit = target
                continue
            if target is not None:
                ahead.append(target)
            unit = one.end
    return True
