"""Weak references and containers.

An object that dies inside is dead for the program at once, or the program runs plainly.
"""

from __future__ import annotations

import warnings
import copy
import gc
import weakref
from typing import Any

import pytest
import torch

import framelift
from support import check


class C:
    def __init__(self, i: int = 0) -> None:
        self.i = i


def value_dies(x):
    v = weakref.WeakValueDictionary()
    a = C()
    v[1] = a
    del a
    return x + 1, len(v), list(v)


def reference(x):
    a = C()
    r = weakref.ref(a)
    alive = r() is a
    del a
    return x + 1, alive, r() is None


def value_of_a_copy_dies(x):
    a, b, c, d = [C(i) for i in range(4)]
    u = weakref.WeakValueDictionary()
    u[a] = b
    u[c] = d
    v = copy.copy(u)
    n = len(v)
    del b
    return x + 1, n, len(v)


def key_of_a_copy_dies(x):
    a, b, c, d = [C(i) for i in range(4)]
    u = weakref.WeakKeyDictionary()
    u[a] = b
    u[c] = d
    v = copy.copy(u)
    n = len(v)
    del c, d
    return x + 1, n, len(v)


def one_of_two_dies(x):
    a, b, c, d = [C(i) for i in range(4)]
    u = weakref.WeakValueDictionary()
    u[a] = b
    u[c] = d
    del b
    return x + 1, len(u)


def value_of_a_deep_copy_dies(x):
    a, b, c, d = [C(i) for i in range(4)]
    u = weakref.WeakValueDictionary()
    u[a] = b
    u[c] = d
    v = copy.deepcopy(u)
    del u, b
    return x + 1, len(v)


def reference_to_one_of_two(x):
    a, b = [C(i) for i in range(2)]
    r = weakref.ref(b)
    del b
    return x + 1, r() is None


def reference_to_a_member(x):
    l = [C(i) for i in range(2)]
    r = weakref.ref(l[1])
    l.pop()
    return x + 1, r() is None


def member_dies(x):
    s = weakref.WeakSet([C(1)])
    a = C(2)
    s.add(a)
    return x + 1, len(s)


def reference_beside_another_name(x):
    a = C(1)
    r = weakref.ref(a)
    b = a
    del a
    k = r() is None
    b = None
    return x + 1, k, r() is None


def tensor_dies(x):
    v = weakref.WeakValueDictionary()
    t = x + 1
    v[1] = t
    del t
    return x + 1, len(v)


def value_lives(x):
    v = weakref.WeakValueDictionary()
    a = C()
    v[1] = a
    return x + 1, len(v), a.i


def value_lives_unused(x):
    v = weakref.WeakValueDictionary()
    a = C()
    v[1] = a
    return (x + 1, len(v), a)[:2]


def callback(x):
    l = []
    a = C()
    r = weakref.ref(a, lambda r: l.append(2))
    del a
    return x + 1, l


def member_is_popped(x):
    s = weakref.WeakSet()
    k = [C(1), C(2)]
    s.update(k)
    k.pop()
    return x + 1, len(s)


def value_dies_with_a_callee(x):
    v = weakref.WeakValueDictionary()

    def g():
        a = C()
        v[1] = a
        return len(v)

    return x + 1, g(), len(v)


def keys_die(x):
    v = weakref.WeakKeyDictionary()
    ks = [C(i) for i in range(3)]
    for k in ks:
        v[k] = k.i
    n = sum(v.values())
    del k
    ks.clear()
    return x + 1, n, len(v)


def keys_live(x):
    v = weakref.WeakKeyDictionary()
    ks = [C(i) for i in range(3)]
    for k in ks:
        v[k] = k.i
    return x + 1, sum(v.values()), len(v), [k.i for k in v], ks[0] in v


def name_is_given_to_another(x):
    v = weakref.WeakValueDictionary()
    a = C(5)
    v["a"] = a
    a = None
    return x + 1, v.get("a") is None, "a" in v


def cycle(x):
    v = weakref.WeakSet()
    a = C(5)
    a.me = a
    v.add(a)
    del a
    return x + 1, len(v)


def cycle_is_collected(x):
    v = weakref.WeakSet()
    a = C(5)
    a.me = a
    v.add(a)
    del a
    gc.collect()
    return x + 1, len(v)


def loop_variable(x):
    v = weakref.WeakValueDictionary()
    for i in range(3):
        a = C(i)
        v[i] = a
    return x + 1, sorted(v), len(v)


def named_by_an_exception(x):
    v = weakref.WeakValueDictionary()
    try:
        a = C(1)
        v[1] = a
        raise ValueError(a)
    except ValueError:
        pass
    del a
    return x + 1, len(v)


def held_by_a_generator(x):
    v = weakref.WeakValueDictionary()

    def gen():
        a = C(1)
        v[1] = a
        yield 1
        yield 2

    g = gen()
    n = next(g)
    k = len(v)
    g.close()
    return x + 1, n, k, len(v)


LIVE = [reference, reference_to_one_of_two, reference_to_a_member, reference_beside_another_name]
DIE = [
    value_lives,
    value_lives_unused,
    keys_live,
    cycle,
    value_dies,
    value_of_a_copy_dies,
    key_of_a_copy_dies,
    one_of_two_dies,
    value_of_a_deep_copy_dies,
    member_dies,
    tensor_dies,
    callback,
    member_is_popped,
    value_dies_with_a_callee,
    keys_die,
    name_is_given_to_another,
    cycle_is_collected,
    loop_variable,
    named_by_an_exception,
    held_by_a_generator,
]


@pytest.mark.parametrize("program", LIVE)
def test_what_lives_until_the_end_is_captured(program: Any) -> None:
    check(program, torch.ones(1))


@pytest.mark.parametrize("program", DIE)
def test_what_dies_inside_is_dead(program: Any) -> None:
    compiled = framelift.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(1))[1:] == program(torch.ones(1))[1:]


# ---- objects of the outside that captured code lets go of ------------------------------------------------------------


class Slotted:
    __slots__ = ("part", "__weakref__")


def holder() -> Any:
    made = C()
    made.part, made.row, made.table, made.slotted = C(), [C()], {"k": C(), "n": 1}, Slotted()
    made.part.inner = C()
    made.slotted.part = C()
    return made


def attribute_is_replaced(h, x):
    r = weakref.ref(h.part)
    before = r() is not None
    h.part = None
    return x + before, r() is None


def what_held_it_is_replaced(h, x):
    r = weakref.ref(h.part.inner)
    h.part = None
    return x, r() is None


def element_is_popped(h, x):
    r = weakref.ref(h.row[0])
    h.row.pop()
    return x, r() is None


def entry_is_deleted(h, x):
    r = weakref.ref(h.table["k"])
    del h.table["k"]
    return x, r() is None


def slot_is_written(h, x):
    r = weakref.ref(h.slotted.part)
    h.slotted.part = None
    return x, r() is None


def member_of_a_weak_set_is_let_go(h, x):
    members = weakref.WeakSet([h.part])
    h.part = None
    return x, len(members)


@pytest.mark.parametrize(
    "program",
    [
        attribute_is_replaced,
        what_held_it_is_replaced,
        element_is_popped,
        entry_is_deleted,
        slot_is_written,
        member_of_a_weak_set_is_let_go,
    ],
    ids=lambda f: f.__name__,
)
def test_what_captured_code_lets_go_of(program: Any) -> None:
    framelift.reset()
    captured = framelift.compile(program, backend="eager")
    for _ in range(2):
        want, got = program(holder(), torch.ones(1)), captured(holder(), torch.ones(1))
        assert want[1:] == got[1:]


def still_held(h, x):
    r, part = weakref.ref(h.part), h.part
    h.part, h.i, h.more = None, 7, [1]
    s = weakref.ref(h.table["k"])
    h.table["n"] = 2
    return x + (r() is part), s() is None, part


def test_what_is_still_held_elsewhere() -> None:
    check(still_held, holder(), torch.ones(1), calls=1, graphs=None, breaks=None)


class Listening:
    def __init__(self) -> None:
        self.heard = 0

    def hear(self) -> int:
        self.heard += 1
        return self.heard


def weak_method(x):
    one, other = Listening(), Listening()
    method = weakref.WeakMethod(one.hear)
    same = (
        method == weakref.WeakMethod(one.hear),
        method == weakref.WeakMethod(other.hear),
        hash(method) == hash(method),
    )
    return x + method()(), one.heard, same, isinstance(method, weakref.ref)


def weak_method_from_outside(held, x):
    return x + held[1]()(), held[0].heard


def test_weak_methods() -> None:
    check(weak_method, torch.ones(1), graphs=None, breaks=None)
    framelift.reset()
    captured = framelift.compile(weak_method_from_outside, backend="eager")
    plain, ours = Listening(), Listening()
    for _ in range(3):
        want = weak_method_from_outside((plain, weakref.WeakMethod(plain.hear)), torch.ones(1))
        assert want == captured((ours, weakref.WeakMethod(ours.hear)), torch.ones(1))


def test_finalize_is_a_graph_break() -> None:
    """Its register is the process's own: what captured code would read there changes at any time."""
    log: list[int] = []

    class Held:
        pass

    def inside(x):
        held = Held()
        finalizer = weakref.finalize(held, log.append, 1)
        return x + 1, finalizer.alive

    def leaves(x):
        held = Held()
        held.value = x * 2
        finalizer = weakref.finalize(held, log.append, 2)
        return held, finalizer, x + 1

    def given(x, finalizer):
        return x + 1, finalizer.alive, finalizer.peek() is None, finalizer() is None, finalizer.alive

    def run(compile_):
        log.clear()
        found = []
        for _ in range(2):
            found.append(compile_(inside)(torch.ones(2))[1])
            held, finalizer, _ = compile_(leaves)(torch.ones(2))
            found += [held.value.tolist(), finalizer.alive, list(log)]
            del held
            found += [finalizer.alive, list(log)]
            other = Held()
            found += compile_(given)(torch.ones(2), weakref.finalize(other, log.append, 3))[1:]
        return found, list(log)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = {one: framelift.compile(one, backend="eager") for one in (inside, leaves, given)}
        assert run(compiled.__getitem__) == run(lambda f: f)
