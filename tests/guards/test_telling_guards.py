"""Which guards tell what may be another at the next call: what is learned from captures is learned of these alone."""

from __future__ import annotations

import types

import torch

from framelift import _core
from framelift.guards.kinds import Guard, tensor_facts
from framelift.vocabulary.origins import arg


def _made_inside() -> type:
    class Inside:
        pass

    return Inside


class _Outside:
    pass


def test_guards_on_what_may_change_are_found_in_their_order() -> None:
    x, inside = arg(0, "x"), _made_inside()
    telling = [
        Guard(x, "EQ", 3),
        Guard(x, "EQ", 2.5),
        Guard(x, "EQ", (1, "a")),
        Guard(x, "EQ", torch.Size([2])),
        Guard(x, "EQ", slice(1, 2)),
        Guard(x, "LEN", 4),
        Guard(x.to("item", "a"), "KEYS", ()),
        Guard(x, "CODE", _made_inside.__code__),
        Guard(x, "TENSOR", tensor_facts(torch.ones(2))),
        Guard(x, "IS", inside),
        Guard(x, "TYPE", inside),
        Guard(x.to("item", "f"), "IS", _made_inside),
        Guard(x, "".join(["E", "Q"]), 8),  # not interned
    ]
    silent = [
        Guard(x, "EQ", True),
        Guard(x, "EQ", None),
        Guard(x, "EQ", "text"),
        Guard(x, "ABSENT", "a"),
        Guard(x, "NO_LOOKUP", "a"),
        Guard(x, "SAME", arg(1, "y")),
        Guard(x.to("dict"), "KEYS", ("a",)),
        Guard(x, "IS", _Outside),
        Guard(x, "TYPE", int),
        Guard(x, "IS", types),
        Guard(x.to("lookup", "f"), "IS", _made_inside),
    ]
    mixed = [guard for pair in zip(telling, silent) for guard in pair] + telling[len(silent) :]
    found = _core.telling_guards(mixed)
    assert [id(guard) for guard in found] == [id(guard) for guard in telling]
    assert _core.telling_guards(()) == []
