"""Rules of the recorder: the one of the highest rank answers, in whatever order they are registered."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from framelift.recording.rules import ranks
from framelift.recording.rules.ranks import RULES, Rank, around, rule


@pytest.fixture
def func(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(ranks, "_ranked", {})
    made = lambda: None  # noqa: E731
    yield made
    RULES.pop(id(made), None)


def _making(name: str, alone: bool = True) -> Any:
    """A rule that puts its name before what the one below says."""

    def make(below: Any) -> Any:
        if below is None and not alone:
            return None
        return lambda *_: [name, *(below() if below is not None else ())]

    return make


def test_ranks_decide_and_not_the_order(func: Any) -> None:
    for order in itertools.permutations(Rank):
        ranks._ranked.clear()
        for one in order:
            around(one, func, _making(one.name))
        assert RULES[id(func)][1](None, (), {}) == ["TAKEN", "KNOWN", "INDEXED", "OPERATION", "REFUSED"]


@pytest.mark.parametrize("first", [True, False])
def test_a_rule_around_nothing_is_none(func: Any, first: bool) -> None:
    around(Rank.KNOWN, func, _making("known", alone=False))
    assert id(func) not in RULES
    around(Rank.REFUSED, func, _making("refused"))
    assert RULES[id(func)][1](None, (), {}) == ["known", "refused"]


def test_a_second_rule_of_one_rank_is_an_error(func: Any) -> None:
    rule(func, func)(lambda *_: 1)
    with pytest.raises(TypeError, match="rank OPERATION already"):
        rule(func)(lambda *_: 2)
    rule(func, rank=Rank.REFUSED)(lambda *_: 3)
    assert RULES[id(func)][1](None, (), {}) == 1


@pytest.mark.slow
def test_names_of_files_decide_nothing() -> None:
    """The modules imported in the opposite order give the same chains of rules."""
    program = textwrap.dedent("""
        import sys, pkgutil, importlib, framelift, torch
        import framelift.recording.rules as package
        from framelift.recording.rules import ranks
        names = [one.name for one in pkgutil.iter_modules(package.__path__)]
        for name in sorted(names, reverse=sys.argv[1] == "backwards"):
            importlib.import_module(f"{package.__name__}.{name}")
        framelift.compile(lambda x: x, backend="eager")(torch.ones(1))
        def chain(handler):
            held = [cell.cell_contents for cell in handler.__closure__ or ()]
            below = [one for one in held if getattr(one, "__module__", "").startswith(package.__name__)]
            return [handler.__qualname__, *[name for one in below for name in chain(one)]]
        rows = {repr(func).split(" at 0x")[0]: (sorted(ranks._ranked[key][1]), chain(handler))
                for key, (func, handler) in ranks.RULES.items() if key in ranks._ranked}
        print(len(rows), sorted(rows.items()))
    """)
    said = [
        subprocess.run([sys.executable, "-c", program, way], capture_output=True, text=True, timeout=300, check=True)
        for way in ("forwards", "backwards")
    ]
    assert said[0].stdout == said[1].stdout and int(said[0].stdout.split()[0]) > 100
