"""Attributes and parameters of external callables.

Read with a guard, written when the call ends, never lost and never before.
"""

import copy
import functools

import pytest
import torch

import framelift


def _plain():
    def called(a=1):
        return a

    return called


def _cached():
    return functools.lru_cache(_plain())


def _partial():
    return functools.partial(_plain(), 3)


def _static():
    return staticmethod(_plain())


def _class_method():
    return classmethod(_plain())


class _OwnProperty(property):
    pass


class _OwnStatic(staticmethod):
    pass


def _compiled():
    return framelift.compile(_plain(), backend="eager")


def _operation():
    return torch.ops.aten.relu.default


@pytest.mark.parametrize(
    "make",
    [
        _plain,
        _cached,
        _partial,
        _static,
        _class_method,
        lambda: _OwnProperty(len),
        lambda: _OwnStatic(len),
        _compiled,
        lambda: torch.jit.trace(torch.relu, torch.ones(1)),
        _operation,
    ],
)
def test_attributes(make):
    def run(compile_it):
        kept, seen = make(), []
        kept.tag, kept.rows = 1, [0]

        def program(x):
            reported = [kept.tag, hasattr(kept, "later"), getattr(kept, "later", None)]
            kept.new = x + reported[0]
            kept.rows.append(len(kept.rows))
            return x * reported[0], reported

        call = framelift.compile(program, backend="eager") if compile_it else program
        for step in range(4):
            result, reported = call(torch.full((2,), float(step)))
            seen.append((result.tolist(), reported, kept.new.tolist(), hasattr(kept, "later"), list(kept.rows)))
            kept.tag = step * 3
            if step == 1:
                kept.later = 5
        for name in ("tag", "rows", "new", "later"):
            delattr(kept, name)
        return seen

    assert run(True) == run(False)


def test_a_property_has_no_dictionary():
    kept = property(len)

    def program(x):
        try:
            return x, kept.__dict__
        except AttributeError as error:
            return x + 1, str(error)

    assert framelift.compile(program, backend="eager")(torch.ones(2))[1] == program(torch.ones(2))[1]


def test_defaults_belong_to_parameters_by_their_number():
    def called(a, b=1, c=2):
        return a * 100 + b * 10 + c

    compiled = framelift.compile(lambda x: x + called(0), backend="eager")
    assert compiled(torch.zeros(1)).item() == 12
    called.__defaults__ = (1, 2, 9)
    assert compiled(torch.zeros(1)).item() == 29


def _method():
    class Own:
        def called(self, a, *, k=1):
            return a, k

    return Own().called, Own.called


def _maker():
    class Own:
        def __init__(self, a, *, k=1):
            pass

    return Own, Own.__init__


def _function():
    def called(a, *, k=1):
        return a, k

    return called, called


@pytest.mark.parametrize("make", [_function, _method, _maker])
@pytest.mark.parametrize("given", [((), {}), ((1,), {"z": 2})])
def test_parameters_that_did_not_fit_may_fit_later(make, given):
    kept, function = make()
    args, kwargs = given

    def program(x):
        try:
            kept(*args, **kwargs)
        except TypeError as error:
            return x, str(error)
        return x + 1, None

    compiled = framelift.compile(program, backend="eager")
    assert compiled(torch.ones(1)) == program(torch.ones(1))
    function.__defaults__ = (5,)
    assert compiled(torch.ones(1)) == program(torch.ones(1))
    function.__code__ = (lambda self=0, a=0, *, z=1, k=1: None).__code__
    function.__kwdefaults__ = {"z": 1, "k": 2}
    assert compiled(torch.ones(1)) == program(torch.ones(1))


def test_a_copy_of_a_bound_method_is_bound_too():
    class Own:
        def __init__(self):
            self.n = 4

        def method(self):
            return self.n

    kept = Own().method

    def program(x):
        made = copy.copy(kept)
        return x + made(), made == kept, made is kept

    assert framelift.compile(program, backend="eager")(torch.ones(2))[1:] == program(torch.ones(2))[1:]


def test_a_cache_from_outside_asks_for_hashes_first():
    cached = functools.lru_cache(lambda value: 1)

    def program(x):
        reported = []
        for value in ([1], (1, [2]), {}, (1, 2)):
            try:
                reported.append(cached(value))
            except TypeError as error:
                reported.append(str(error))
        return x + 1, reported

    assert framelift.compile(program, backend="eager")(torch.ones(2))[1] == program(torch.ones(2))[1]


class _Slotted(property):
    __slots__ = ("__doc__", "extra")


KEPT = _Slotted(lambda self: 1)
KEPT.extra = 1


def test_a_property_with_slots():
    def program(x):
        made = _Slotted(lambda self: 1)
        made.extra = x + 1
        read = made.extra
        del made.extra
        return read, hasattr(made, "extra"), KEPT.extra

    compiled = framelift.compile(program, backend="eager")
    for value in (1, 4):
        KEPT.extra = value
        expected, found = program(torch.ones(1)), compiled(torch.ones(1))
        assert torch.equal(expected[0], found[0]) and expected[1:] == found[1:]


class _Remembering(property):
    def __get__(self, owner, kind=None):
        if owner is None:
            return self
        self.seen = owner.x + 1
        return owner.x


class _Holder:
    kept = _Remembering(lambda self: 1)

    def __init__(self):
        self.x = torch.ones(2)


def test_a_descriptor_that_writes_to_itself():
    def program(x):
        _Holder.kept.tag = x * 2
        return x + holder.kept

    holder, descriptor = _Holder(), vars(_Holder)["kept"]
    compiled = framelift.compile(program, backend="eager")
    for value in (1.0, 3.0):
        holder.x = torch.full((2,), value)
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), value + 1))
        assert descriptor.seen.tolist() == [value + 1] * 2 and descriptor.tag.tolist() == [2.0, 2.0]


def test_the_keywords_of_a_partial_are_its_own():
    """The dictionary that a partial shows is the one it calls with, inside as outside, also when its keys change."""
    made = functools.partial(dict, a=1)
    outer = functools.partial(made, b=2)
    holding = functools.partial(list, [torch.ones(1)])

    def f(x):
        outer.keywords["n"] = len(outer.keywords)
        made.keywords.pop("a", None)
        return x + 1, outer.keywords, outer(), made(), outer.keywords is made.keywords, holding.args

    made_state, outer_state = dict(made.keywords), dict(outer.keywords)
    seen = []
    for wrap in (lambda g: g, lambda g: framelift.compile(g, backend="eager")):
        for partial, state in ((made, made_state), (outer, outer_state)):
            partial.keywords.clear()
            partial.keywords.update(state)
        target, rows = wrap(f), []
        for number in range(4):
            if number == 2:
                outer.keywords["more"] = 5
            found = target(torch.ones(2))
            rows.append(
                (
                    found[1] is outer.keywords,
                    dict(found[1]),
                    *found[2:-1],
                    dict(made.keywords),
                    found[-1] is holding.args,
                )
            )
        seen.append(rows)
    assert seen[0] == seen[1]
