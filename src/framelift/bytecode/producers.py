"""Which instruction made what lies on a frame's stack: reports name values by that expression."""

from __future__ import annotations

from .flow import Flow

#: leave the stack's top as it was, or only take from it
_SILENT = frozenset(
    (
        "POP_TOP",
        "NOP",
        "PRECALL",
        "KW_NAMES",
        "RESUME",
        "PUSH_NULL",
        "CACHE",
        "EXTENDED_ARG",
        "SWAP",
        "COPY",
        "POP_EXCEPT",
        "END_FOR",
        "POP_ITER",
        "NOT_TAKEN",
        "LIST_APPEND",
        "SET_ADD",
        "MAP_ADD",
        "LIST_EXTEND",
        "SET_UPDATE",
        "DICT_UPDATE",
        "DICT_MERGE",
    )
)
_SILENT_STARTS = ("STORE_", "DELETE_", "POP_JUMP", "JUMP_")


def producers(flow: Flow, unit: int) -> dict[int, int]:
    """Slot of the stack before the instruction at `unit` -> the instruction that put its value there, as far as the
    order of the code shows.

    Of two branches that leave a value in the same slot the later one is named.
    """
    found: dict[int, int] = {}
    lowest = flow.shapes[unit].depth  # slots from here on are explained, or did not outlive what came between
    for op in reversed(flow.ops[: flow.number[unit]]):
        if lowest == 0:
            break
        after = _depth_after(flow, op.unit)
        if after is None or op.name in _SILENT or op.name.startswith(_SILENT_STARTS):
            continue
        if after <= lowest and after - 1 not in found and after > 0:
            found[after - 1] = op.whole
            lowest = after - 1
    return found


def _depth_after(flow: Flow, unit: int) -> int | None:
    """The depth where control continues after an instruction without a jump; None where it does not."""
    number = flow.number[unit] + 1
    if (
        unit not in flow.shapes
        or number >= len(flow.ops)
        or flow.ops[number] not in flow.following(flow.ops[number - 1])
    ):
        return None
    shape = flow.shapes.get(flow.ops[number].unit)
    return shape.depth if shape is not None else None
