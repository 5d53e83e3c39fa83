"""The collector while a function is captured: held back in our own work, as usual in the work of a backend."""

from __future__ import annotations

import gc
import threading

import pytest
import torch

import framelift


def _collections(run):
    """How many collections began while `run` ran."""
    begun = []

    def note(phase, _info):
        if phase == "start":
            begun.append(phase)

    gc.callbacks.append(note)
    try:
        run()
    finally:
        gc.callbacks.remove(note)
    return len(begun)


def f(x):
    kept = [[n] for n in range(2000)]
    return x + len(kept)


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield before
    assert gc.get_threshold() == before


def test_a_backend_sees_the_thresholds_of_the_program(thresholds):
    seen = []

    def backend(graph_module, _inputs):
        seen.append(gc.get_threshold())
        return graph_module.forward

    assert torch.equal(framelift.compile(f, backend=backend)(torch.ones(2)), torch.ones(2) + 2000)
    assert seen == [thresholds]


def test_collections_begin_in_a_backend():
    found = []

    def backend(graph_module, _inputs):
        found.append(_collections(lambda: [[n] for n in range(50_000)]))
        return graph_module.forward

    framelift.compile(f, backend=backend)(torch.ones(2))
    assert found[0] > 0


def test_what_a_capture_made_begins_no_collection_in_a_backend():
    found = []

    def backend(graph_module, _inputs):
        found.append(_collections(lambda: [[n] for n in range(50)]))
        return graph_module.forward

    gc.collect()
    framelift.compile(f, backend=backend)(torch.ones(2))
    assert found == [0]


def test_captures_in_a_row_make_a_collection_begin():
    def captures():
        for _ in range(40):  # CPython 3.14 begins one after 2,000 objects, 3.11 after 700
            framelift.reset()
            framelift.compile(f, backend="eager")(torch.ones(2))

    captures()
    gc.collect()
    assert 1 <= _collections(captures) <= 40


def test_a_backend_that_fails_leaves_the_thresholds():
    def backend(graph_module, _inputs):
        raise ValueError("no")

    with pytest.raises(framelift.exc.BackendCompilerFailed, match="no"):
        framelift.compile(f, backend=backend)(torch.ones(2))


def test_thresholds_that_a_backend_sets_stay(thresholds):
    def backend(graph_module, _inputs):
        gc.set_threshold(1234, 7, 8)  # CPython 3.14 has no third one
        return graph_module.forward

    framelift.compile(f, backend=backend)(torch.ones(2))
    try:
        assert gc.get_threshold()[:2] == (1234, 7)
    finally:
        gc.set_threshold(*thresholds)


def test_a_program_that_collects_never_stays_so(thresholds):
    gc.set_threshold(0, 5, 5)
    try:
        framelift.compile(f, backend="eager")(torch.ones(2))
        assert gc.get_threshold()[:2] == (0, 5)
    finally:
        gc.set_threshold(*thresholds)


def test_a_backend_that_captures_in_turn():
    def inner(x):
        return x * 2

    def backend(graph_module, _inputs):
        compiled = framelift.compile(inner, backend="eager")
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * 2)
        return graph_module.forward

    assert torch.equal(framelift.compile(f, backend=backend)(torch.ones(2)), torch.ones(2) + 2000)


def test_two_threads_capture():
    def work():
        for _ in range(5):
            framelift.compile(lambda x: f(x) * 2, backend="eager")(torch.ones(2))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
