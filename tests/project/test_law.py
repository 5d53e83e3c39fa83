"""The law, by random programs: change any external value between two calls, and captured still equals eager.

A failing example names its seed: `python -m tests.law --seed N --size S --reduce` shows it made small.
`python tests/law/run.py --programs 20000 --jobs 2` is the big run.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import sys
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import framelift
from framelift.guards.kinds import KINDS
from law.breaks import generate_breaks
from law.facts import generate_facts
from law.generate import generate
from law.kept import generate_kept, judge_kept
from law.more import generate_more
from law.planted import DEFECTS, NOT_FOUND, SEEDS, finds
from law.runner import _settled, judge
from law.steer import Endless, bounded


def programs(count: int) -> int:
    """So many in `make nightly`, two of three of them in CI: always the same ones.  `make law` makes new ones."""
    return count if "--whole" in sys.argv else count * 2 // 3


seen: collections.Counter[str] = collections.Counter()
broken: collections.Counter[str] = collections.Counter()


@settings(max_examples=programs(120))
@given(size=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_captured_equals_eager_whatever_changes(size: int, seed: int) -> None:
    program = generate(seed, size)
    note(f"python -m tests.law --seed {seed} --size {size} --reduce")
    verdict = judge(program)
    seen.update(
        programs=1, captures=verdict.captures, graphs=verdict.graphs, whole=verdict.breaks == {} and verdict.graphs > 0
    )
    assert verdict.failure is None, f"{verdict.failure}\nseed {seed} size {size}"


@settings(max_examples=programs(60))
@given(size=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_captured_equals_eager_in_the_larger_world(size: int, seed: int) -> None:
    """Generators of numbers, references, contexts, iterators, exceptions and namespaces from outside."""
    note(f"python -m tests.law --more --seed {seed} --size {size}")
    verdict = judge(generate_more(seed, size))
    assert verdict.failure is None, f"{verdict.failure}\nseed {seed} size {size}"


@settings(max_examples=programs(60))
@given(size=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_captured_equals_eager_with_breaks(size: int, seed: int) -> None:
    """Breaks at random places, in all kinds of blocks, in the function and in what it calls."""
    note(f"python -m tests.law --breaks --seed {seed} --size {size}")
    verdict = judge(generate_breaks(seed, size))
    broken.update(programs=1, captures=verdict.captures, graphs=verdict.graphs, breaks=sum(verdict.breaks.values()))
    assert verdict.failure is None, f"{verdict.failure}\nseed {seed} size {size}"


@settings(max_examples=programs(25))
@given(size=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_captured_equals_eager_whatever_objects_are_made_of(size: int, seed: int) -> None:
    """Classes of all metaclasses, attributes found in unusual ways, patches on torch.Tensor, function modes, values of
    small tensors.
    """
    note(f"python -m tests.law --facts --seed {seed} --size {size}")
    verdict = judge(generate_facts(seed, size))
    assert verdict.failure is None, f"{verdict.failure}\nseed {seed} size {size}"


@settings(max_examples=programs(12))
@given(size=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_captured_equals_eager_with_kept_captures(size: int, seed: int) -> None:
    """Captured and kept on disk, forgotten, and loaded in a world that changed: the big run has two processes."""
    note(f"python -m tests.law --kept --seed {seed} --size {size}")
    verdict = judge_kept(generate_kept(seed, size))
    assert verdict.failure is None, f"{verdict.failure}\nseed {seed} size {size}"


def test_captured_equals_eager_with_a_compiler() -> None:
    """AOTAutograd drops draws that nobody uses, so these programs draw nothing."""
    judged = graphs = 0
    for seed in range(programs(51)):
        program = generate(seed, 1 + seed % 8)
        if not any(draw in program.source for draw in ("F.dropout(", "torch.rand(")):
            verdict = judge(program, lambda f: framelift.compile(f, backend="aot_eager"))
            assert verdict.failure is None, f"{verdict.failure}\nseed {seed} size {1 + seed % 8}"
            judged, graphs = judged + 1, graphs + verdict.graphs
    assert judged > programs(20) and graphs > judged


def test_the_programs_with_breaks_were_captured_in_parts() -> None:
    if not broken["programs"]:
        pytest.skip("the law test with breaks was not run")
    assert broken["breaks"] > 2 * broken["programs"]
    assert broken["graphs"] > broken["programs"]


def test_the_programs_were_captured() -> None:
    """Programs that all run in plain Python would pass for nothing."""
    if not seen["programs"]:
        pytest.skip("the law test was not run")
    print(dict(seen))
    assert seen["captures"] > seen["programs"]
    assert seen["graphs"] > seen["programs"] / 2


def test_generation_is_repeatable() -> None:
    assert generate(5, 4) == generate(5, 4) != generate(6, 4)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: str) -> None:
    """Programs whose seeds are noted beside the defect fail when those guards are left out, and pass with them."""
    assert any(finds(seed, defect) for seed in SEEDS[defect])


def test_every_kind_of_guard_is_planted_or_excused() -> None:
    covered = frozenset().union(*DEFECTS.values())
    assert set(KINDS) == (covered & set(KINDS)) | set(NOT_FOUND)


def test_a_program_without_end_is_given_up() -> None:
    with pytest.raises(Endless), bounded(0.02):
        while True:
            pass


def test_what_only_garbage_holds_is_no_part_of_a_world() -> None:
    world: dict[str, Any] = {"LOG": []}

    class Ends:
        def __del__(self) -> None:
            world["LOG"].append("ended")

    gc.disable()
    try:
        held = Ends()
        held.itself = held  # type: ignore[attr-defined]
        del held
        assert not world["LOG"] and _settled(world)["LOG"] == ["ended"]
    finally:
        gc.enable()


def test_what_only_a_traceback_of_a_caught_exception_holds_is_no_part_of_a_world() -> None:
    group = ExceptionGroup("g", [ValueError(1)])
    world: dict[str, Any] = {"LOG": [], "GROUP": group}

    class Ends:
        def __del__(self) -> None:
            world["LOG"].append("ended")

    def inner() -> None:
        with contextlib.suppress(ExceptionGroup):
            raise group

    def outer() -> None:
        held = Ends()  # noqa: F841  the caller of a frame in the traceback holds it
        inner()

    outer()
    assert not world["LOG"] and _settled(world)["LOG"] == ["ended"]
    assert group.__traceback__ is not None
