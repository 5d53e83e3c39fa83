"""State of the process and the thread that Python programs touch.

Random generators, contexts, frames, references, the collector.
"""

from __future__ import annotations

import contextvars
import decimal
import gc
import io
import contextlib
import random
import sys
import threading
import types
import warnings
import weakref
from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.ones(3)


# ---- random ---------------------------------------------------------------------------------------------------------


def seeded(x: Any) -> Any:
    random.seed(3)
    return x * random.random() + random.randint(1, 5)


def test_a_seed_given_inside_makes_numbers_values() -> None:
    check(seeded, X)


def seeded_only(x: Any) -> Any:
    random.seed(4)
    return x + 1


def set_only(x: Any, state: Any) -> Any:
    random.setstate(state)
    return x + 1


def seeded_and_drawn(x: Any) -> Any:
    random.seed(4)
    return x + random.random()


def test_a_state_given_inside_is_the_one_left_behind_even_if_it_was_there_before() -> None:
    random.seed(4)
    state = random.getstate()
    random.random()
    drawn = random.getstate()
    for function, start, args in (
        (seeded_only, state, (X,)),
        (set_only, state, (X, state)),
        (seeded_and_drawn, drawn, (X,)),
    ):
        framelift.reset()
        captured = framelift.compile(function, backend="eager", fullgraph=True)
        for before in (start, random.Random(5).getstate(), start, random.Random(6).getstate()):
            random.setstate(before)
            captured(*args)
            assert random.getstate() == start


def drawing(x: Any) -> Any:
    return x * random.random()


@pytest.mark.parametrize("whole", [False, True])
def test_numbers_from_outside_are_never_frozen(whole: bool) -> None:
    random.seed(1)
    want = [drawing(X) for _ in range(4)]
    random.seed(1)
    framelift.reset()
    captured = framelift.compile(drawing, backend="eager", fullgraph=whole)
    assert all(map(torch.equal, want, [captured(X) for _ in range(4)]))


def many_ways(x: Any) -> Any:
    items = list(range(10))
    random.shuffle(items)
    own = random.Random(7)
    return x + items[0] + own.choice([1, 2, 3]), random.sample(items, 3), own


def test_the_module_and_a_generator_of_ones_own() -> None:
    check(many_ways, X, mutate=lambda i, w: random.seed(0), captures=1)


def from_argument(x: Any, generator: random.Random) -> Any:
    return x + generator.uniform(0, 1)


def test_a_generator_that_comes_in_goes_on_outside() -> None:
    check(from_argument, X, random.Random(3), calls=3)


# ---- context variables ----------------------------------------------------------------------------------------------

SCALE: contextvars.ContextVar[Any] = contextvars.ContextVar("SCALE")
NAMED: contextvars.ContextVar[Any] = contextvars.ContextVar("NAMED", default=2)


def scaled(x: Any) -> Any:
    token = SCALE.set(5)
    y = x * SCALE.get() * NAMED.get()
    SCALE.reset(token)
    return y + SCALE.get(7)


def test_context_variables() -> None:
    check(scaled, X)
    framelift.reset()
    captured = framelift.compile(scaled, backend="eager", fullgraph=True)
    for scale in (2, 4):
        NAMED.set(scale)
        assert torch.equal(captured(X), scaled(X))
    NAMED.set(2)


def setting(x: Any) -> Any:
    NAMED.set(NAMED.get() + 1)
    return x + NAMED.get()


def test_a_context_variable_stays_set() -> None:
    def run(function: Any) -> Any:
        NAMED.set(1)
        return [function(X), function(X), NAMED.get()]

    framelift.reset()
    want, got = run(setting), run(framelift.compile(setting, backend="eager", fullgraph=True))
    assert want[2] == got[2] == 3 and torch.equal(want[1], got[1])
    NAMED.set(2)


# ---- frames ---------------------------------------------------------------------------------------------------------


def make_looking() -> Any:
    k = [3]

    def looking(x: Any) -> Any:
        a = 2
        found = locals()
        exec("b = a + len(k)")
        c = eval("a + k[0]")
        return x + found["a"] + len(found["k"]) + c, sorted(found), found["k"] is k

    return looking


def test_locals_exec_and_eval_in_the_calling_frame() -> None:
    check(make_looking(), X, graphs=None, breaks=None)


def generator_parts(x: Any) -> Any:
    def numbers() -> Any:
        yield 1

    made = numbers()
    return x + 1, made.gi_code is numbers.__code__, made.gi_frame.f_code.co_name, next(made)


def frame_parts(x: Any) -> Any:
    return x + 1, sys._getframe().f_code is frame_parts.__code__


def trace_parts(x: Any) -> Any:
    try:
        raise ValueError
    except ValueError as error:
        trace = error.__traceback__
        return x + 1, trace.tb_frame.f_code is trace_parts.__code__, trace.tb_frame is sys._getframe(), trace.tb_lineno


def test_twins_do_not_show() -> None:
    for program in (generator_parts, trace_parts, frame_parts):
        check(program, X, graphs=None, breaks=None)


# ---- weak references and the collector ------------------------------------------------------------------------------


class Thing:
    pass


def referring(x: Any, thing: Thing) -> Any:
    inside = Thing()
    inner, outer = weakref.ref(inside), weakref.ref(thing)
    alive = inner() is inside and outer() is thing
    del inside
    return x + 1, alive, inner() is None


def test_references_made_inside() -> None:
    check(referring, X, Thing())


def asking(x: Any, reference: Any) -> Any:
    found = reference()
    return x + (0 if found is None else found.size)


def test_references_from_outside() -> None:
    thing = Thing()
    thing.size = 4
    framelift.reset()
    captured = framelift.compile(asking, backend="eager", fullgraph=True)
    reference = weakref.ref(thing)
    assert torch.equal(captured(X, reference), X + 4)
    thing.size = 5
    assert torch.equal(captured(X, reference), X + 5)
    del thing
    gc.collect()
    assert torch.equal(captured(X, reference), X)


def weak_tables(x: Any, thing: Thing) -> Any:
    keys, values = weakref.WeakKeyDictionary(), weakref.WeakValueDictionary()
    keys[thing] = 3
    values["thing"] = thing
    return x + keys[thing] + len(keys), values["thing"] is thing


def test_weak_dictionaries() -> None:
    check(weak_tables, X, Thing(), graphs=None, breaks=None)


def dropped(x: Any) -> Any:
    def ref_of(thing: Any) -> Any:
        made = weakref.ref(thing)
        del thing
        return made, made()

    made, found = ref_of(Thing())
    return x + (found is None)


def test_an_object_that_may_be_dead_interrupts() -> None:
    # A frame hook keeps the arguments of a call alive until it returns, so the plain run is not compared.
    framelift.reset()
    with pytest.raises(framelift.exc.Unsupported, match="may be dead"):
        framelift.compile(dropped, backend="eager", fullgraph=True)(X)


def collecting(x: Any) -> Any:
    a = Thing()
    a.me = a
    reference = weakref.ref(a)
    del a
    gc.collect()
    return x + (reference() is None)


def test_the_collector() -> None:
    check(collecting, X, graphs=None, breaks=None)


# ---- locks, namespaces, exceptions, bound methods of C types ---------------------------------------------------------

LOCK, RLOCK = threading.Lock(), threading.RLock()


def locking(x: Any) -> Any:
    with LOCK, RLOCK:
        return x + LOCK.locked()


def test_locks_from_outside() -> None:
    check(locking, X)


def with_namespace(x: Any, space: types.SimpleNamespace) -> Any:
    space.a += 1
    space.b.append(3)
    space.c = x
    del space.a
    space.a = 5
    return x + space.a


def test_simple_namespaces() -> None:
    check(with_namespace, X, types.SimpleNamespace(a=1, b=[2]), calls=1)


class Special(ValueError):
    def __init__(self, k: int) -> None:
        super().__init__(k)
        self.k = k


def raising(x: Any, error: BaseException) -> Any:
    try:
        raise error
    except Exception as caught:
        caught.note = 4
        return x + caught.args[-1], caught is error, caught


def chaining(x: Any, error: Special) -> Any:
    try:
        raise KeyError(2) from error
    except KeyError as caught:
        return x + caught.__cause__.k


@pytest.mark.parametrize("error", [RuntimeError("hi", 3), Special(3), StopIteration(4), AttributeError("a", 2)])
def test_exceptions_from_outside(error: BaseException) -> None:
    check(raising, X, error, calls=1)


def test_an_exception_from_outside_as_a_cause() -> None:
    check(chaining, X, Special(3))


ITEMS: list[int] = []
APPEND = ITEMS.append


def appending(x: Any) -> Any:
    APPEND(1)
    return x + len(ITEMS)


def test_a_bound_method_of_a_list_writes_to_that_list() -> None:
    check(appending, X, state=[(globals(), "ITEMS"), (globals(), "APPEND")], calls=1)


# ---- text -----------------------------------------------------------------------------------------------------------


def not_callable(x: Any, thing: Any) -> Any:
    try:
        thing(2)
    except TypeError as error:
        return x + 1, str(error)


def test_calling_what_cannot_be_called_raises() -> None:
    check(not_callable, X, [1])


# ---- thread locals and warnings -------------------------------------------------------------------------------------

LOCAL = threading.local()


def local_state(x: Any) -> Any:
    LOCAL.b = LOCAL.a + 1
    del LOCAL.a
    return x + LOCAL.b, hasattr(LOCAL, "c")


def test_thread_locals() -> None:
    framelift.reset()
    captured = framelift.compile(local_state, backend="eager", fullgraph=True)
    for value in (2, 5):
        LOCAL.a = value
        result, other = captured(X)
        assert torch.equal(result, X + value + 1) and other is False and vars(LOCAL) == {"b": value + 1}


def quietly(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x + 1


def test_filters_of_warnings_are_put_back(monkeypatch: Any) -> None:
    monkeypatch.setattr(warnings, "_showwarnmsg_impl", print)  # pytest's own is a list that grows
    before = list(warnings.filters)
    check(quietly, X)
    assert warnings.filters == before


def test_notes_are_added_to_a_list_that_grows() -> None:
    def program(x: Any, error: Any) -> Any:
        error.add_note(f"seen {x.shape[0]}")
        return x + 1

    check(program, torch.ones(2), ValueError("v"), calls=5, mutate=lambda *_: None, graphs=None)


class OwnLocal(threading.local):
    pass


class AnsweringLocal(threading.local):
    def __getattr__(self, name):
        if name == "count":
            return 0
        raise AttributeError(name)


@pytest.mark.parametrize("kind", [OwnLocal, AnsweringLocal])
def test_attributes_of_a_kind_of_thread_local(kind):
    kept = kind()
    kept.tag = 1

    def program(x):
        kept.count = getattr(kept, "count", 0) + kept.tag
        return x + kept.count, hasattr(kept, "later")

    compiled = framelift.compile(program, backend="eager")
    assert compiled(torch.zeros(1))[0].item() == 1 and kept.count == 1
    kept.tag, kept.later = 5, True
    result, later = compiled(torch.zeros(1))
    assert result.item() == 6 and later and kept.count == 6
