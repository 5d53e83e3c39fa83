"""What a frame's surroundings are on both sides of a break.

Exceptions being handled, iterators, settings of torch, counts of rehearsals.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import io
import sys
import types
import warnings

import pytest
import torch
from support import check

import framelift
from framelift.capture import driver


@framelift.disable
def off(value):
    return value


@framelift.disable
def fails(text):
    raise ValueError(text)


def broken(f, *args, **kwargs):
    """Captured in parts, equal to plain Python."""
    return check(f, *args, **{"graphs": None, "breaks": None, "calls": 3, **kwargs})


def test_nothing_is_handled_behind_a_handler_with_a_break() -> None:
    def f(x, log):
        try:
            fails("inside")
        except ValueError:
            off(0)
            x = x + 1
            log.append(sys.exc_info()[0])
        log.append(sys.exc_info()[0])
        return x * 2

    broken(f, torch.ones(2), [])


def test_objects_die_with_the_exception_of_a_failed_operation(monkeypatch) -> None:
    """Nothing that capturing raised keeps the frame's objects: their finalisers run when they would."""

    class Thing:
        def __del__(self):
            log.append("dead")

    @framelift.compile(backend="eager")
    def f(x, y):
        held = Thing()
        off(0)
        x = torch.stack([x, y])
        off(1)
        return held, x

    log = []
    monkeypatch.setattr(gc, "collect", lambda *args: 0)
    gc.disable()
    try:
        for number in range(2):
            with contextlib.suppress(RuntimeError):
                f(torch.ones(2), torch.ones(3))
            assert log == ["dead"] * (number + 1)
    finally:
        gc.enable()


@pytest.mark.parametrize("way", ["except", "finally", "loop"])
def test_objects_die_with_the_exception_of_a_plain_part(way, monkeypatch) -> None:
    """The frame that raised it is in its traceback, and handed it over: it must not hold it."""

    class Thing:
        def __del__(self):
            log.append("dead")

    def f(x):
        held = Thing()
        try:
            x = x + 1
            fails(str(type(held)))
        except ValueError:
            x = x * 2
        return x

    def g(x):
        held = Thing()
        off(held)
        try:
            fails("one")
        finally:
            return x * 2

    def h(x):
        for held in [Thing(), Thing()]:
            try:
                fails(str(type(held)))
            except ValueError:
                x = x * 2
            off(x)
        return x

    monkeypatch.setattr(gc, "collect", lambda *args: 0)
    gc.disable()
    try:
        function = {"except": f, "finally": g, "loop": h}[way]
        for call in (function, framelift.compile(function, backend="eager")):
            log = []
            for _ in range(3):
                call(torch.ones(2))
            assert len(log) == (6 if way == "loop" else 3)
    finally:
        gc.enable()


def test_objects_die_when_a_capture_is_over(monkeypatch) -> None:
    """Views of the program's containers know their rehearsal, and it knows them: it lets go when it is closed."""

    class Thing:
        def __del__(self):
            log.append("dead")

    @framelift.compile(backend="eager")
    def f(x, table):
        return x * table["a"] + len(table["things"])

    log = []
    monkeypatch.setattr(gc, "collect", lambda *args: 0)
    gc.disable()
    try:
        f(torch.ones(2), {"a": 2, "things": [Thing()]})
        assert log == ["dead"]
    finally:
        gc.enable()


class Ends:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("end")


def _waiting(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


def _keeps_an_object(x, log):
    held = Ends(log)
    off(1)
    x = x + 1
    log.append("before")
    off(2)
    return x * 2


def _keeps_in_a_list(x, log):
    held = [Ends(log), Ends(log)]
    off(1)
    log.append("before")
    x = x + 1
    return x * 2


def _keeps_a_popped_one(x, log):
    log.append(Ends([log][0]))
    held = log.pop()
    off(1)
    log.append("before")
    x = x + 1
    off(2)
    return x


def _keeps_a_generator(x, log):
    waiting = _waiting(log)
    n = next(waiting)
    off(1)
    x = x + n
    log.append("before")
    off(2)
    return x * 2


def _keeps_a_generator_of_another(x, log):
    waiting = (n + 1 for n in _waiting(log))
    n = next(waiting)
    off(1)
    log.append("before")
    return x * n


def _lets_go(x, log):
    held = Ends(log)
    off(1)
    held = None
    off(2)
    log.append("after")
    del held
    return x + 1


@pytest.mark.parametrize(
    "f",
    [
        _keeps_an_object,
        _keeps_in_a_list,
        _keeps_a_popped_one,
        _keeps_a_generator,
        _keeps_a_generator_of_another,
        _lets_go,
    ],
)
def test_locals_live_until_the_frame_ends(f) -> None:
    """Also those that nothing reads behind a break."""
    for call in (f, framelift.compile(f, backend="eager")):
        found = []
        for _ in range(3):
            log = []
            call(torch.ones(2), log)
            found.append(log)
        if call is f:
            expected = found
    assert found == expected


def test_tensors_that_nothing_reads_are_not_handed_over() -> None:
    def f(x):
        y = x + 1
        z = [y * 2, y]
        off(1)
        return x + 1

    compiled = framelift.compile(f, backend="eager")
    compiled(torch.ones(2))
    assert "t0" not in compiled.entries[0].info.source


def test_a_compiled_graph_that_fails_where_eager_does_not_raises_its_error() -> None:
    def failing(gm, inputs):
        def run(*args):
            raise RuntimeError("not today")

        return run

    compiled = framelift.compile(lambda x: x + 1, backend=failing)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not today"):
            compiled(torch.ones(1))


def test_an_error_of_the_program_is_told_by_plain_python_alone() -> None:
    def f(x, i):
        return x[i] + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(IndexError):
            framelift.compile(f, backend="eager")(torch.ones(2), torch.tensor([5]))


def test_an_entry_that_is_not_for_a_call_leaves_torch_alone() -> None:
    """The number of rounds is symbolic.

    That another one begins is found inside the entry, whose grad mode is then not the call's.
    """

    def f(x, log, n):
        while True:
            n += 1
            if n > 6:
                break
            with torch.no_grad():
                off(n)
            off(0)
        off(n)
        log.append(torch.is_grad_enabled())
        return x * n

    broken(f, torch.ones(2, requires_grad=True), [], 0)


def _made(text: str):
    """The function `f` of a program's text, in a file of its own."""
    names = {"off": off, "torch": torch}
    exec(compile(text, "/programs/breaks_state.py", "exec"), names)
    return names["f"]


def _in_a_row(n: int) -> str:
    return "def f(x):\n" + "".join(f"    x = x + {i}\n    off({i})\n" for i in range(n)) + "    return x * 2\n"


def _nested(n: int) -> str:
    inner = "".join(f"def f{i + 1}(x):\n    return f{i}(x + 1) * 2\n" for i in range(n))
    return f"def f0(x):\n    off(0)\n    return x + 1\n{inner}f = f{n}\n"


def _callers(n: int) -> str:
    callers = "".join(f"def f{i}(x):\n    return g(x + {i}) * 2\n" for i in range(n))
    return (
        f"def g(x):\n    x = x + 1\n    off(0)\n    return x * 2\n{callers}def f(x):\n"
        + "".join(f"    x = f{i}(x)\n" for i in range(n))
        + "    return x\n"
    )


def _in_a_loop(n: int) -> str:
    return f"def f(x):\n    for i in range({n}):\n        x = x + i\n        off(0)\n        x = x * 2\n    return x\n"


@pytest.mark.parametrize("text", [_in_a_row, _nested, _callers, _in_a_loop])
def test_rehearsals_are_linear_in_the_number_of_breaks(text, monkeypatch) -> None:
    count = []
    rehearse = driver.rehearse
    monkeypatch.setattr(driver, "rehearse", lambda *args, **options: count.append(1) or rehearse(*args, **options))
    found = {}
    for n in (1, 2, 4, 8, 16):
        f = _made(text(n))
        count.clear()
        x = torch.ones(2)
        assert torch.equal(framelift.compile(f, backend="eager")(x), f(x))
        found[n] = len(count)
    assert all(found[2 * n] - found[n] <= 6 * n for n in (1, 2, 4, 8)), (
        found
    )  # a break costs at most two rehearsals in each of caller, callee and below
    assert found[16] <= 2 * found[8], found


def test_one_cause_met_by_many_callers_is_told_once(caplog) -> None:
    compiled = framelift.compile(_made(_callers(4)), backend="eager")
    with caplog.at_level("INFO", "framelift.breaks"):
        compiled(torch.ones(2))
    reported = [row.getMessage() for row in caplog.records]
    assert [text for text in reported if "fix: " in text] == reported[:1]
    assert reported[-1].endswith(f"({len(reported)} times so far)") and len(reported) > 4
    (cause,) = compiled.report().breaks
    assert cause.times == len(reported) and len(cause.functions) == 6


def _local(x):
    k = 2

    def inner(v):
        return v * k

    x = inner(x)
    off(1)
    k = 3
    return inner(x)


def _default(x):
    def inner(v, more=lambda v: v + 1):
        return more(v)

    off(inner)
    return inner(x)


def _in_cells(x):
    def inner(v):
        return v * 2

    def outer(v):
        return inner(v) + 1

    off(1)
    return outer(x)


def _in_containers(x):
    made = {"a": [lambda v: v * 2], "b": functools.partial(lambda v, w: v * w, 3)}
    off(1)
    return made["a"][0](x), made["b"](x)


def _in_objects(x):
    thing = types.SimpleNamespace(), Holder()
    thing[1].fn = lambda v: v * 2
    off(1)
    return thing[1].fn(x)


def _of_a_callee(x):
    def make(n):
        return lambda v: v * n

    twice, thrice = make(2), make(3)
    off(1)
    return twice(x), thrice(x), twice is thrice, twice == twice


def _of_a_class(x):
    pair = PAIR
    off(1)
    made = pair._replace(left=off(2))
    return x + made.left, type(pair)._replace is pair._replace.__func__


class Holder:
    pass


PAIR = collections.namedtuple("Pair", "left right")(1, 3)


def _with_attributes(x):
    def inner(v):
        return v * inner.scale

    inner.scale, inner.note, inner.itself = 2, [x], inner
    off(1)
    return inner(x), inner.itself is inner, vars(inner)["note"]


def _attributes_that_change(x, n):
    def inner(v):
        return v * 2

    inner.count = n
    if n > 1:
        inner.more = x
    off(0)
    inner.count += 1
    return inner(x) * inner.count, sorted(vars(inner))


def test_attributes_of_functions_made_before_a_break_are_read_at_each_call() -> None:
    def other(number, world):
        world.args[1] = number % 3

    check(_attributes_that_change, torch.ones(2), 2, graphs=None, breaks=None, calls=6, mutate=other)


@pytest.mark.parametrize(
    "f", [_local, _default, _in_cells, _in_containers, _in_objects, _of_a_callee, _with_attributes]
)
def test_functions_made_before_a_break_are_told_by_their_code(f) -> None:
    """They are others at each call: what goes on behind the break is captured once all the same."""
    check(f, torch.ones(2), graphs=None, breaks=1, captures=2, calls=4)


def test_a_function_made_elsewhere_may_be_found_twice() -> None:
    check(_of_a_class, torch.ones(2), graphs=None, breaks=None, calls=3)


def test_what_dies_with_each_call_is_not_captured_for_ever(monkeypatch) -> None:
    def f(x):
        fresh = type("Fresh", (), {"k": 2})()
        off(1)
        return x * fresh.k

    monkeypatch.setattr(framelift.config, "accumulated_recompile_limit", 5)
    compiled = framelift.compile(f, backend="eager")
    before = framelift.stats()["captures"]
    with pytest.warns(UserWarning, match="compiled 5 times"):
        for _ in range(20):
            assert compiled(torch.ones(1)).item() == 2
    assert framelift.stats()["captures"] - before <= 11  # the frame, and five times each of the two parts that follow


def test_what_is_only_handed_on_is_not_guarded() -> None:
    """Which of the conditions are one tensor, and what they are like, is no concern of the parts that do not look at
    them.
    """

    def f(x, a, b, c):
        x = x + 1
        if a:
            x = x + 2
        x = x + 3
        if b:
            x = x + 4
        x = x + 5
        if c:
            x = x + 6
        return x + 7

    compiled = framelift.compile(f, backend="eager")
    yes, no = torch.ones(1), torch.zeros(1)
    before = framelift.stats()["captures"]
    for number in range(8):
        args = [torch.ones(2), *(yes if number >> bit & 1 else no for bit in range(3))]
        assert torch.equal(compiled(*args), f(*args))
    assert framelift.stats()["captures"] - before == 7
    assert torch.equal(compiled(torch.ones(2), yes, [], "one"), f(torch.ones(2), yes, [], "one"))


def test_what_is_handed_on_is_still_itself() -> None:
    def f(x, a, b, *rest, **more):
        y = x + LISTS[0][0]
        LISTS[0].append(2)
        off(0)
        b.append(y)
        return a is b, a, b, rest, more, b is LISTS[0], more["c"] is rest[0]

    def longer(i, world):
        LISTS[0] = world.args[1] = world.args[2]

    both = [1]
    LISTS = [both]
    broken(f, torch.ones(2), [3], both, x := torch.zeros(1), kwargs={"c": x}, mutate=longer)


def test_what_is_handed_on_may_be_looked_at_by_a_callee() -> None:
    def peek():
        return isinstance(sys._getframe(1).f_locals["y"], torch.Tensor)

    def f(x, y):
        seen = peek()
        x = x + 1
        off(0)
        return x * 2, y, seen

    broken(f, torch.ones(2), torch.ones(1), mutate=lambda i, world: world.args.__setitem__(1, i))


def test_what_is_only_kept_is_not_guarded() -> None:
    @framelift.disable
    def made():
        return kinds.pop()()

    def f(x):
        held = made()
        x = x + 1
        off(1)
        return x * 2

    kinds = [type(name, (), {}) for name in "abcdef"]
    compiled = framelift.compile(f, backend="eager")
    before = framelift.stats()["captures"]
    for _ in range(6):
        compiled(torch.ones(2))
    assert (
        framelift.stats()["captures"] - before == 8
    )  # the frame, what puts it into its variable for each kind, the rest once


def test_attributes_of_an_object_have_one_truth() -> None:
    """Also where a method of its dictionary lies on the stack at a break."""

    def f(x, thing):
        thing.__dict__.update(n=off(7))
        x = x + thing.n
        table = vars(thing)
        off(0)
        thing.n = 8
        x = x * table["n"]
        table["n"] = 9
        return x + thing.n

    def g(x, thing, table):
        before = thing.n
        table["n"] = 3
        return x + thing.n, before, table

    thing = Holder()
    thing.n = 5
    broken(f, torch.ones(2), thing)
    broken(g, torch.ones(2), thing, thing.__dict__)


def test_an_iterator_over_a_list_that_grew_keeps_its_position() -> None:
    def f(x, some):
        some.extend([1, 2, 3])
        ahead, back = iter(some), reversed(some)
        found = [next(ahead), next(ahead), next(back)]
        off(0)
        pairs = zip(ahead, [4, 5])
        return x + 1, found, list(pairs), list(back)

    def g(x, n):
        return x + 1, [v for v in [*off([1, 2]), 5] if off(v) > n]

    broken(f, torch.ones(2), [])
    broken(g, torch.ones(2), 1, mutate=lambda i, world: world.args.__setitem__(1, 1 - i))


def test_a_class_body_that_runs_plainly_fills_its_class() -> None:
    def f(x):
        y = x + 1

        class Kind:
            a = off(3)
            t = y * 2
            off(4)
            b = t + a

            def own(self):
                return self.b, __class__ is type(self)

        return Kind().own()

    broken(f, torch.ones(2))


@pytest.mark.parametrize("limit", [4096, 2])
def test_containers_that_are_being_built_at_a_break(limit, monkeypatch) -> None:
    def f(x):
        table = {i: x * i for i in range(6) if off(i)}
        some = {i for i in range(6) if off(i) and x is not None}
        row = [x + i for i in range(6) if off(i)]
        mixed = {**table, "a": off(1), **{k: v for k, v in table.items() if off(k)}}
        keyed = {Thing(i): off(i) for i in range(3) if x is not None}
        return table, some, row, [*row, off(2), *row], mixed, [k.i for k in keyed]

    class Thing:
        def __init__(self, i):
            self.i = i

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self.i == other.i

    monkeypatch.setattr(framelift.config, "large_container", limit)
    broken(f, torch.ones(2))


def test_an_attribute_load_that_breaks_loads_its_own_attribute() -> None:
    """Whatever the number of its name: no bit of it says "method" where method loads are another opcode."""

    class Box:
        pass

    def f(x, box):
        try:
            x = x + box.one.two
        except AttributeError as error:
            off(0)
            x = x + len(str(error))
        return x, box.three, box.four.five

    box = Box()
    box.one = box.three = None
    box.four = torch.nn.Linear(1, 1)
    box.four.five = 7
    broken(f, torch.ones(2), box)

    def g(x, out):
        a = out.closed
        b = out.line_buffering
        c = out.errors
        return x + 1, a, b, c, out.tell()

    broken(g, torch.ones(2), io.StringIO("abc"))


def test_an_exception_from_outside_raised_inside_a_context_that_breaks() -> None:
    """It has a traceback only where it is raised for real: nothing is handed over behind that."""

    class Quiet:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            off(kind)
            log.append((kind, str(error), trace is None))
            return True

    def f(x):
        x = x + 1
        with Quiet():
            raise off(ValueError("one"))
        error = ValueError("two")
        with Quiet():
            off(1)
            raise error
        return x * 2

    log = []
    broken(f, torch.ones(2))
    assert set(log) == {(ValueError, "one", False), (ValueError, "two", False)}


def test_comprehensions_that_hide_a_variable_with_a_cell() -> None:
    """Since CPython 3.12 such a comprehension runs in its function's frame and uses the variable's slot."""
    outer = 7

    @framelift.disable
    def looks(value):
        """As debuggers do."""
        frame = sys._getframe()
        while frame is not None and sys.version_info[:2] != (3, 13):  # 3.13.0 itself crashes at that
            dict(frame.f_locals)
            frame = frame.f_back
        return value

    def f(x, n):
        def seen():
            return n, outer

        found = [looks(n) for n in range(3)]
        nested = [[off(outer) for outer in range(n)] for n in (1, 2)]
        made = []
        for k in range(2):
            made.append([lambda: i + n for i in range(off(2))])
        made.append([(off(1), lambda: i)[1] for i in range(2)])
        try:
            [off(n)[0] for n in range(2)]
        except TypeError:
            found.append(n)
        return x + n, found, nested, [[each() for each in row] for row in made], seen(), k

    broken(f, torch.ones(2), 5)


class _Trouble(Exception):
    pass


def _bound_by_the_handler(x, log):
    for n in _waiting(log):
        try:
            try:
                fails("first")
            except ValueError as first:
                raise _Trouble("second") from first
        except _Trouble as second:
            log.append(str(second))
        log.append("behind")
        if n:
            break
    off(n)
    log.append("end")
    return x + 1


def _kept_by_a_variable(x, log):
    for n in _waiting(log):
        try:
            raise _Trouble("second")
        except _Trouble as second:
            kept = second
            off(kept)
        log.append("behind")
        break
    off(n)
    log.append("end")
    return x + 1


def _kept_by_a_callee(x, log):
    def callee(n):
        try:
            raise _Trouble("second")
        except _Trouble as second:
            kept = second
        return off(n) if kept else n

    for n in _waiting(log):
        log.append(callee(n))
        break
    off(n)
    log.append("end")
    return x + 1


@pytest.mark.parametrize(
    "f", (_bound_by_the_handler, _kept_by_a_variable, _kept_by_a_callee), ids=lambda f: f.__name__[1:]
)
def test_iterators_die_with_their_loop_where_exceptions_were_raised(f, monkeypatch) -> None:
    """Neither a frame that is stopped nor one that an exception keeps holds on to what the capture was given."""
    monkeypatch.setattr(gc, "collect", lambda *args: 0)
    gc.disable()
    try:
        found = []
        for call in (f, framelift.compile(f, backend="eager")):
            found.append([])
            for _ in range(3):
                log = []
                call(torch.ones(2), log)
                found[-1].append(list(log))
        assert found[0] == found[1]
    finally:
        gc.enable()
