"""Torch's state as a guard, and what a failing guard says."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

from framelift import _core, config
from framelift.exc import InternalError
from framelift.guards.sentences import explain, explain_all
from framelift.guards.kinds import KINDS, Guard, tensor_facts
from framelift.guards.native_program import build_program
from test_guards import X, Plain, _constants, _zoo, one, program_of

# ---- torch's state --------------------------------------------------------------------------------------------------

STATES = {
    "grad mode": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "torch-function modes": lambda: torch.device("cpu"),
    "dispatch": lambda: torch.utils._python_dispatch.TorchDispatchMode(),
    "torch functions disabled": torch._C.DisableTorchFunction,
}


@pytest.mark.parametrize("name", sorted(STATES))
def test_state_changes_are_seen(name: str) -> None:
    state = _core.torch_state()
    program = program_of(state=state)
    assert program.check(()) is None and state.matches() and state == _core.torch_state()
    with STATES[name]():
        assert program.check(()) == (-1, 1) and not state.matches() and state != _core.torch_state()
        words = explain(program, (-1, 1), ())
    assert name in words
    assert program.check(()) is None


def test_settings_are_seen() -> None:
    program = program_of(state=_core.torch_state())
    changes = [
        (torch.set_default_dtype, torch.float64, torch.float32),
        (torch.use_deterministic_algorithms, True, False),
        (lambda v: setattr(torch.utils.deterministic, "fill_uninitialized_memory", v), False, True),
        (lambda v: setattr(torch.backends.mkldnn, "enabled", v), False, True),
        (torch.set_autocast_cache_enabled, False, True),
        (lambda v: torch.set_autocast_dtype("cpu", v), torch.float16, torch.bfloat16),
    ]
    for setter, other, usual in changes:
        setter(other)
        try:
            assert program.check(()) == (-1, 1)
        finally:
            setter(usual)
        assert program.check(()) is None


def test_state_inside_functorch() -> None:
    state = _core.torch_state()
    seen: list[bool] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        seen.append(state.matches())
        return x * 2

    torch.func.vmap(f)(torch.zeros(3))
    torch.func.grad(lambda x: f(x).sum())(torch.zeros(3))
    assert seen == [False, False]


# ---- words ----------------------------------------------------------------------------------------------------------


def test_sentences() -> None:
    def forward() -> None: ...

    box = Plain()
    box.__dict__.update(scale=2, items=[1], table={"a": 1}, weight=torch.zeros(2, 3), nothing=types.CellType())
    own = X.to("dict")
    cases = [
        (own.to("item", "scale"), "EQ", 2, lambda: box.__dict__.update(scale=3), "x.__dict__['scale'] is now 3, was 2"),
        (own.to("item", "items"), "LEN", 1, lambda: box.items.append(1), "now has 2 items, had 1"),
        (own.to("item", "table"), "KEYS", ("a",), lambda: box.table.update(b=1), "has new keys 'b'"),
        (
            own.to("item", "weight"),
            "TENSOR",
            tensor_facts(box.weight),
            lambda: setattr(box, "weight", torch.zeros(4)),
            "has size (4,), had (2, 3)",
        ),
        (own, "ABSENT", "training", lambda: setattr(box, "training", True), "now has the entry 'training'"),
        (
            own.to("item", "nothing"),
            "EMPTY",
            None,
            lambda: setattr(box.nothing, "cell_contents", 1),
            "was an empty cell",
        ),
        (own.to("item", "scale"), "TYPE", int, lambda: box.__dict__.update(scale="s"), "is now a str, was an int"),
        (own.to("item", "table"), "IS", box.table, lambda: box.__dict__.update(table=1), "is now 1, was"),
        (own.to("item", "gone"), "EQ", 1, lambda: box.__dict__.pop("gone"), "no longer exists"),
    ]
    box.gone = 1
    program = program_of(*(Guard(o, k, v, (forward.__code__, 0)) for o, k, v, _, _ in cases))
    saved = dict(box.__dict__)
    for origin, kind, value, change, words in cases:
        alone = program_of(Guard(origin, kind, value, (forward.__code__, 0)))
        assert alone.check((box,)) is None
        change()
        failure = alone.check((box,))
        sentence = explain(alone, failure, (box,))
        assert words in sentence and f"{__file__}:{forward.__code__.co_firstlineno} in " in sentence, sentence
        box.__dict__.clear()
        box.__dict__.update(saved)
        box.__dict__["nothing"] = saved["nothing"] = types.CellType()
        if kind == "LEN":
            box.items.pop()
        if kind == "KEYS":
            del box.table["b"]
    assert explain_all([program], (box,)) == [""] and "Missing" not in explain_all([program], (Plain(),))[0]


def test_every_kind_has_words_for_any_value() -> None:
    zoo = _zoo()
    for kind in KINDS:
        for constant in _constants(kind, zoo)[:6]:
            program = one(kind, constant)
            for value in zoo:
                failure = program.check((value,))
                assert failure is None or explain(program, failure, (value,)).startswith("x ")


def test_verify_guards() -> None:
    with config.patch(verify_guards=True):
        program, _ = build_program([Guard(X, "EQ", 1)], [], [], [], None)
    compiled = _core.Compiled(lambda x: x, None)
    compiled.entries.append(_core.Entry(program, lambda inputs, externals: "entry"))
    assert compiled(1) == "entry" and compiled(2) == 2
    program.verifier = lambda arguments, failure: (_ for _ in ()).throw(InternalError("disagree"))
    with pytest.raises(InternalError):
        compiled(1)
