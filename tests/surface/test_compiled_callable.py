"""The native callable: binding arguments as CPython does, choosing entries, misses, methods, lifetimes."""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import sys
import threading
import weakref
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from framelift import _core, config
from framelift.exc import InternalError
from framelift.guards.kinds import Guard, tensor_facts
from framelift.guards.native_program import build_program
from framelift.vocabulary.origins import arg

OFF, RUN_ONLY, CAPTURE, REHEARSE, PAUSED = range(5)


def entry(run: Any, *guards: Guard, inputs: Any = (), externals: Any = ()) -> Any:
    with config.patch(verify_guards=False):  # verifying keeps what guards name alive
        return _core.Entry(build_program(guards, list(inputs), list(externals), [], None)[0], run, "info")


def seen_locals(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What a miss is given: the bound locals, or the text of CPython's own TypeError."""
    reported: list[Any] = []

    def miss(compiled: Any, locals_: tuple[Any, ...]) -> bool:
        reported.append(locals_)
        compiled.entries.insert(0, entry(lambda inputs, externals: None))
        return True

    compiled = _core.Compiled(function, miss)
    try:
        compiled(*args, **kwargs)
    except TypeError as error:
        assert not reported
        return str(error)
    return reported[0]


# ---- binding --------------------------------------------------------------------------------------------------------


def f_plain(a, b):
    return locals()


def f_default(a, b=2, c=3):
    return locals()


def f_positional(a, b=2, /, c=3):
    return locals()


def f_keyword(a, *, k, m=5):
    return locals()


def f_star(a, *rest, k=1):
    return locals()


def f_kwargs(a=1, **extra):
    return locals()


def f_all(a, b=2, /, c=3, *rest, k, m=5, **extra):
    return locals()


def f_none():
    return locals()


def f_only_star(*rest, **extra):
    return locals()


def f_closure(a, b=1, *rest, **extra):
    return (lambda: (a, extra)) and locals()


FUNCTIONS = [f_plain, f_default, f_positional, f_keyword, f_star, f_kwargs, f_all, f_none, f_only_star, f_closure]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_binding_is_cpythons(function: Any) -> None:
    names = ("a", "b", "c", "k", "m", "z")
    code = function.__code__
    order = code.co_varnames[
        : code.co_argcount
        + code.co_kwonlyargcount
        + bool(code.co_flags & inspect.CO_VARARGS)
        + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    ]
    bound = refused = 0
    for count in range(5):
        for chosen in itertools.chain.from_iterable(itertools.combinations(names, r) for r in range(4)):
            args, kwargs = tuple(range(count)), {n: n.upper() for n in chosen}
            try:
                expected: Any = function(*args, **kwargs)
            except TypeError as error:
                assert seen_locals(function, *args, **kwargs) == str(error)
                refused += 1
                continue
            found = seen_locals(function, *args, **kwargs)
            assert found == tuple(expected[name] for name in order)
            try:
                signature = inspect.signature(function).bind(*args, **kwargs)
            except TypeError:  # inspect itself refuses a positional-only name among **kwargs
                assert "extra" in order and set(chosen) & {"a", "b"}
            else:
                signature.apply_defaults()
                assert dict(zip(order, found)) == dict(signature.arguments)
            bound += 1
    assert bound and (refused or function is f_only_star)


@given(
    st.lists(st.sampled_from("abcdef"), max_size=5, unique=True),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 5),
    st.sets(st.sampled_from("abcdefz"), max_size=4),
)
@settings(max_examples=300)
def test_binding_of_random_signatures(
    names: Any, posonly: int, kwonly: int, defaults: int, star: bool, double: bool, given_: int, keys: Any
) -> None:
    kwonly, posonly = min(kwonly, len(names)), min(posonly, len(names))
    positional = names[: len(names) - kwonly]
    parts = [n if i < len(positional) - defaults else f"{n}='{n}'" for i, n in enumerate(positional)]
    if 0 < posonly <= len(positional):
        parts.insert(posonly, "/")
    parts += ["*rest"] if star else ["*"] if kwonly else []
    parts += [f"{n}='k'" if i % 2 else n for i, n in enumerate(names[len(names) - kwonly :])]
    parts += ["**extra"] if double else []
    scope: dict[str, Any] = {}
    exec(f"def made({', '.join(parts)}): return tuple(locals().values())", scope)
    args, kwargs = tuple(range(given_)), dict.fromkeys(sorted(keys), 9)
    try:
        expected: Any = scope["made"](*args, **kwargs)
    except TypeError as error:
        expected = str(error)
    assert seen_locals(scope["made"], *args, **kwargs) == expected


def test_defaults_are_read_at_every_call() -> None:
    def function(a: Any = 1, *, k: Any = 2) -> None: ...

    reported: list[Any] = []
    compiled = _core.Compiled(function, lambda c, locals_: reported.append(locals_))
    compiled()
    function.__defaults__, function.__kwdefaults__ = (3,), {"k": 4}
    compiled()
    function.__defaults__ = None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        compiled()
    assert reported == [(1, 2, function), (3, 4, function)]  # a nested function is handed over with them


def test_many_parameters_and_keyword_names_that_are_not_interned() -> None:
    scope: dict[str, Any] = {}
    exec(f"def wide({', '.join(f'parameter_{i}' for i in range(60))}): pass", scope)
    kwargs = {"".join(["parameter_", str(i)]): i for i in range(60)}
    assert seen_locals(scope["wide"], **kwargs) == tuple(range(60))


def test_bound_arguments_come_first() -> None:
    def method(self: Any, x: Any, *rest: Any, k: Any = 0) -> Any:
        return self, x, rest, k

    compiled = _core.Compiled(method, None, ("me", 1))
    assert compiled(2, 3, k=4) == ("me", 1, (2, 3), 4) and compiled.bound == ("me", 1)
    compiled.entries.append(entry(lambda inputs, externals: inputs, inputs=[arg(0, "self"), arg(3, "rest")]))
    assert compiled(5) == ("me", (5,))


# ---- entries --------------------------------------------------------------------------------------------------------


def test_first_entry_whose_guards_hold_runs() -> None:
    def function(x: int) -> str:
        return "plain"

    x = arg(0, "x")
    compiled = _core.Compiled(function, lambda c, locals_: False)
    compiled.entries += [
        entry(lambda i, e: ("one", i, e), Guard(x, "EQ", 1), inputs=[x], externals=[x, x]),
        entry(lambda i, e: "int", Guard(x, "TYPE", int)),
        entry(None, Guard(x, "EQ", "plainly")),
    ]
    assert (
        compiled(1) == ("one", (1,), (1, 1))
        and compiled(2) == "int"
        and compiled("s") == "plain"
        and compiled("plainly") == "plain"
    )
    assert [e.hits for e in compiled.entries] == [1, 1, 1] and compiled.hits == 2
    assert compiled.entries[0].info == "info" and not compiled.entries[0].dead


def test_a_miss_may_put_an_entry_in_front() -> None:
    def function(x: int) -> str:
        return "plain"

    asked: list[int] = []

    def miss(compiled: Any, locals_: tuple[Any, ...]) -> bool:
        asked.append(locals_[0])
        if locals_[0] < 3:
            compiled.entries.insert(0, entry(lambda i, e: locals_[0] * 10, Guard(arg(0, "x"), "EQ", locals_[0])))
        return locals_[0] < 3

    compiled = _core.Compiled(function, miss)
    assert [compiled(n) for n in (1, 2, 1, 2, 3, 3)] == [10, 20, 10, 20, "plain", "plain"]
    assert asked == [1, 2, 3, 3] and len(compiled.entries) == 2


def test_a_miss_may_put_another_list_there() -> None:
    def miss(compiled: Any, locals_: tuple[Any, ...]) -> bool:
        compiled.entries = [entry(lambda i, e: "entry")]
        return True

    compiled = _core.Compiled(lambda x: "plain", miss)
    assert compiled(1) == "entry" and len(compiled.entries) == 1
    with pytest.raises(TypeError):
        compiled.entries = ()


def test_an_entry_that_does_not_hold_for_its_own_call_is_an_internal_error() -> None:
    def function(x: int) -> None: ...

    def miss(compiled: Any, locals_: tuple[Any, ...]) -> Any:
        compiled.entries.insert(0, entry(None, Guard(arg(0, "x"), "EQ", -1, "file.py:3 in function")))
        return compiled.entries[0]

    with pytest.raises(InternalError, match="x is now 5, was -1.*file.py:3"):
        _core.Compiled(function, miss)(5)


def test_other_threads_may_add_entries_for_other_calls_meanwhile() -> None:
    """Guards may hold for entries that look further and say no.

    How often that happens is a matter of the number of threads.
    """

    def miss(compiled: Any, locals_: tuple[Any, ...]) -> Any:
        made = entry((lambda i, e: "entry") if len(compiled.entries) == 20 else lambda i, e: _core.MISS)
        compiled.entries.insert(0, made)
        return True

    compiled = _core.Compiled(lambda x: "plain", miss)
    assert compiled(1) == "entry" and len(compiled.entries) == 21


def test_a_made_entry_runs_also_where_another_thread_emptied_the_list() -> None:
    compiled = _core.Compiled(lambda x: "plain", lambda c, locals_: entry(lambda i, e: "entry"))
    assert compiled(1) == "entry" and compiled.entries == [] and compiled.hits == 1


def test_exceptions_pass_through() -> None:
    def function(x: int) -> None:
        raise KeyError(x)

    def fail(*_: Any) -> None:
        raise ValueError("from the entry")

    compiled = _core.Compiled(function, lambda c, locals_: False)
    with pytest.raises(KeyError):
        compiled(1)
    compiled.miss = fail
    with pytest.raises(ValueError):
        compiled(1)
    compiled.entries.append(entry(fail))
    with pytest.raises(ValueError, match="from the entry"):
        compiled(1)
    compiled.entries[:] = ["no entry"]
    with pytest.raises(TypeError):
        compiled(1)


def test_modes_and_the_switch() -> None:
    def function(x: int) -> str:
        return "plain"

    asked: list[Any] = []
    compiled = _core.Compiled(function, lambda c, locals_: asked.append(1))
    compiled.entries.append(entry(lambda i, e: "entry", Guard(arg(0, "x"), "EQ", 1)))

    def under(mode: int, x: int) -> Any:
        before = _core.switch_mode(mode)
        try:
            return compiled(x)
        finally:
            _core.switch_mode(before)

    assert under(PAUSED, 1) == "plain" and under(OFF, 1) == "entry" and under(RUN_ONLY, 1) == "entry"
    assert under(RUN_ONLY, 2) == "plain" and not asked
    assert under(OFF, 2) == "plain" and asked
    before = _core.disable_all(True)
    try:
        assert compiled(1) == "plain"
    finally:
        _core.disable_all(before)
    assert compiled(1) == "entry"


def test_dead_entries_are_removed() -> None:
    class Local: ...

    compiled = _core.Compiled(lambda x: "plain", lambda c, locals_: False)
    compiled.entries += [
        entry(lambda i, e: "dead", Guard(arg(0, "x"), "TYPE", Local)),
        entry(lambda i, e: "alive", Guard(arg(0, "x"), "EQ", 1)),
    ]
    assert compiled(Local()) == "dead"
    del Local
    gc.collect()
    assert compiled.entries[0].dead and compiled(1) == "alive" and len(compiled.entries) == 1


def test_entries_may_change_while_they_are_tried() -> None:
    compiled = _core.Compiled(lambda x: "plain", lambda c, locals_: False)

    def clear(value: Any) -> bool:
        compiled.entries.clear()
        gc.collect()
        return False

    compiled.entries += [entry(None, Guard(arg(0, "x"), "CHECK", (clear, "clears"))), entry(lambda i, e: "second")]
    assert compiled(1) == "plain" and compiled.entries == []


def test_the_callable_may_vanish_during_its_call() -> None:
    holder: dict[str, Any] = {}

    def run(inputs: Any, externals: Any) -> str:
        holder.clear()
        gc.collect()
        return "done"

    holder["f"] = _core.Compiled(lambda x: x, None)
    holder["f"].entries.append(entry(run))
    assert holder["f"](1) == "done"

    def recurse(inputs: Any, externals: Any) -> Any:
        return inputs[0] if inputs[0] == 0 else compiled(inputs[0] - 1)

    compiled = _core.Compiled(lambda x: x, None)
    compiled.entries.append(entry(recurse, inputs=[arg(0, "x")]))
    assert compiled(50) == 0


# ---- looks ----------------------------------------------------------------------------------------------------------


def test_it_looks_like_its_function() -> None:
    def function(x: int = 1) -> int:
        """Doc."""
        return x

    function.extra = 5
    compiled = _core.Compiled(function, None)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "extra"):
        assert getattr(compiled, name) == getattr(function, name)
    assert compiled.__wrapped__ is compiled.function is function
    assert inspect.signature(compiled) == inspect.signature(function)
    compiled.note = 1
    assert vars(compiled)["note"] == 1 and compiled() == 1 and "function" in repr(compiled)
    assert _core.Compiled(function, None, name="other").__name__ == "other"
    with pytest.raises(TypeError):
        _core.Compiled(len, None)


def test_as_a_method() -> None:
    class Model:
        @functools.partial(_core.Compiled, miss=None)
        def forward(self, x: int) -> Any:
            return self, x

    model = Model()
    assert model.forward(1) == (model, 1) and model.forward.__self__ is model and Model.forward(model, 2) == (model, 2)
    Model.forward.entries.append(entry(lambda i, e: i, inputs=[arg(1, "x"), arg(0, "self")]))
    assert model.forward(3) == (3, model)


# ---- lifetimes ------------------------------------------------------------------------------------------------------


def test_everything_is_collected() -> None:
    class Marker: ...

    marker = Marker()
    gone = weakref.ref(marker)

    def function(x: Any, keep: Any = marker) -> None: ...

    compiled = _core.Compiled(function, None, (marker,))
    compiled.entries.append(entry(lambda i, e, keep=marker: compiled, Guard(arg(0, "x"), "TYPE", Marker)))
    compiled.self, compiled.frames["x"] = compiled, marker
    entered = weakref.ref(compiled)
    assert compiled() is compiled
    del marker, compiled, function
    gc.collect()
    assert gone() is None and entered() is None


def test_references_are_balanced_over_many_calls() -> None:
    t, u = torch.zeros(2), torch.zeros(3)
    default, word = object(), "".join(["a", "word"])

    def function(a: Any, b: Any, c: Any = default, *rest: Any, k: Any = default, **extra: Any) -> None: ...

    a = arg(0, "a")
    compiled = _core.Compiled(function, lambda c, locals_: False)
    compiled.entries += [
        entry(lambda i, e: None, Guard(a, "TENSOR", tensor_facts(u)), inputs=[a]),
        entry(
            lambda i, e: None,
            Guard(a, "TENSOR", tensor_facts(t)),
            inputs=[a, arg(1, "b"), arg(2, "c")],
            externals=[arg(1, "b"), arg(3, "k")],
        ),
    ]
    watched = [
        t,
        u,
        default,
        word,
        compiled,
        function,
        compiled.entries[0],
        compiled.entries[1],
        None,
        compiled.entries,
        compiled.miss,
    ]
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(25000):
        compiled(t, word)
        compiled(u, word, word, word, k=word, z=word)
        compiled(1, word)
        try:
            compiled(t)
        except TypeError:
            pass
    after = [sys.getrefcount(o) for o in watched]
    assert max(abs(x - y) for x, y in zip(before, after)) < 20


def test_threads() -> None:
    compiled = _core.Compiled(lambda x: "plain", lambda c, locals_: False)
    x = arg(0, "x")
    compiled.entries += [entry(lambda i, e, n=n: (n, i[0]), Guard(x, "EQ", n), inputs=[x]) for n in range(4)]
    wrong: list[Any] = []

    def work(n: int) -> None:
        for _ in range(2000):
            if compiled(n) != ((n, n) if n < 4 else "plain"):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
