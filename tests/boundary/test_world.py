"""The import gateway: what each kind of external value becomes, and that a change of it is seen at the next call."""

from __future__ import annotations

import collections
import enum
import functools
import re
import types

import pytest
import torch

import framelift
from support import World, check

X = torch.arange(3.0)


class Box:
    """A plain class: its instances are handles."""

    factor = 2

    def __init__(self, value: object = 1) -> None:
        self.value = value

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.value * self.factor

    @property
    def double(self) -> object:
        return self.value * 2

    @classmethod
    def made(cls) -> Box:
        return cls(cls.factor)

    @staticmethod
    def plus(x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Slots:
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class Dynamic:
    """Answers any attribute."""

    def __init__(self) -> None:
        self.known = 3

    def __getattr__(self, name: str) -> object:
        if name == "missing" or name.startswith("__"):
            raise AttributeError(name)
        return len(name) + self.known


class Watched:
    def __getattribute__(self, name: str) -> object:
        if name == "special":
            return 7
        return object.__getattribute__(self, name)


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def shade(self) -> int:
        return self.value * 10


Pair = collections.namedtuple("Pair", "left right")


def test_leaves_are_guarded_by_equality() -> None:
    def f(x, n):
        return x + n

    check(f, X, 2, mutate=lambda i, w: w.args.__setitem__(1, 2.0 if i == 1 else 2), calls=3, graphs=None, captures=2)


def test_zero_and_minus_zero_differ() -> None:
    def f(x, n):
        return x * n, str(n)

    check(f, X, 0.0, mutate=lambda i, w: w.args.__setitem__(1, -0.0), graphs=None, captures=2)


def test_a_tensor_met_by_two_paths_is_one_stand_in() -> None:
    def f(box, x):
        return x + 1 if box.value is x else x - 1

    box = Box(X)
    check(f, box, X, graphs=None, captures=2, mutate=lambda i, w: setattr(w.args[0], "value", w.args[1].clone()))


@pytest.mark.parametrize(
    "container",
    [
        [1, 2],
        {"a": 1, "b": 2},
        {1, 2},
        (1, [2]),
        collections.deque([1, 2]),
        collections.OrderedDict(a=1),
        collections.defaultdict(list, a=[1]),
        Pair(1, [2]),
        bytearray(b"ab"),
    ],
    ids=lambda c: type(c).__name__,
)
def test_containers_become_shadows(container) -> None:
    def f(x, c):
        return x + len(c), c, type(c)

    def grow(i: int, world: World) -> None:
        c = world.args[1]
        if hasattr(c, "append"):
            c.append(5)
        elif hasattr(c, "add"):
            c.add(5)
        elif isinstance(c, dict):
            c["new"] = 5
        else:
            c[1].append(5)

    check(f, X, container, mutate=grow, graphs=None, captures=2)


def test_handles_are_read_attribute_by_attribute() -> None:
    def f(x, box):
        return box.scaled(x)

    box = Box(3)
    box.unread = 1

    def change(i: int, world: World) -> None:
        world.args[1].unread = i  # not read, so not guarded
        if i == 2:
            world.args[1].value = 4

    check(f, X, box, mutate=change, calls=3, graphs=2, captures=2)


def test_class_attributes_properties_class_and_static_methods() -> None:
    def f(x, box):
        return box.plus(x) * box.double + box.made().value + box.factor

    check(f, X, Box(3))
    try:
        compiled = framelift.compile(f, backend="eager", fullgraph=True)
        box = Box(3)
        assert torch.equal(compiled(X, box), f(X, box))
        Box.factor = 5
        assert torch.equal(compiled(X, box), f(X, box))
    finally:
        Box.factor = 2


def test_a_method_replaced_on_the_class_is_seen() -> None:
    class Local:
        def go(self, x):
            return x + 1

    def f(x, obj):
        return obj.go(x)

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    obj = Local()
    assert torch.equal(compiled(X, obj), X + 1)
    Local.go = lambda self, x: x - 1
    assert torch.equal(compiled(X, obj), X - 1)
    obj.go = lambda x: x * 5
    assert torch.equal(compiled(X, obj), X * 5)


def test_special_methods_called_by_c_code_are_guarded() -> None:
    class Local:
        def __len__(self):
            return 2

        def __iter__(self):
            return iter([1, 2])

    def f(x, obj):
        return x + len(obj) + sum(obj)

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    obj = Local()
    assert torch.equal(compiled(X, obj), X + 5)
    Local.__len__ = lambda self: 7
    assert torch.equal(compiled(X, obj), X + 10)
    del Local.__len__
    with pytest.raises(TypeError, match="has no len"):
        compiled(X, obj)


def test_slots_getattr_and_getattribute() -> None:
    def f(x, slots, dynamic, watched):
        return x + slots.value + dynamic.anything + dynamic.known + watched.special + hasattr(dynamic, "missing")

    def change(i: int, world: World) -> None:
        if i == 1:
            world.args[1].value = 9
        else:
            world.args[2].anything = 1

    check(f, X, Slots(4), Dynamic(), Watched(), mutate=change, calls=3, graphs=None, captures=3)


def test_enum_members_named_tuples_and_regular_expressions() -> None:
    word = re.compile(r"\d+")

    def f(x, color, pair):
        return x + color.shade + pair.left + int(word.search("ab12").group()), color is Color.RED

    check(f, X, Color.RED, Pair(1, 2), mutate=lambda i, w: w.args.__setitem__(1, Color.BLUE), graphs=None, captures=2)


def test_functions_closures_defaults_and_partials() -> None:
    def make(k):
        def inner(x, scale=[2]):
            return x * scale[0] + k

        return inner

    inner = make(3)
    part = functools.partial(inner, scale=[4])

    def f(x):
        return inner(x) + part(x)

    check(f, X)
    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), f(X))
    inner.__defaults__[0][0] = 7
    assert torch.equal(compiled(X), f(X))
    inner.__closure__[0].cell_contents = 100
    assert torch.equal(compiled(X), f(X))
    part.keywords["scale"][0] = 1
    assert torch.equal(compiled(X), f(X))
    inner.__code__ = make(1).__code__.replace(co_firstlineno=1)
    assert torch.equal(compiled(X), f(X))


def test_unknown_c_objects_may_be_passed_around_but_not_used() -> None:
    generator = torch.Generator()

    def hand_over(x, g):
        return x + 1, g, isinstance(g, torch.Generator), type(g) is torch.Generator

    check(hand_over, X, generator)

    def use(x, g):
        return x + g.initial_seed()

    with pytest.raises(framelift.exc.Unsupported, match="Generator"):
        framelift.compile(use, backend="eager", fullgraph=True)(X, generator)


def test_two_different_objects_that_become_one_are_seen() -> None:
    def f(x, a, b):
        a.value = 10
        return x + b.value

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    a, b = Box(1), Box(2)
    assert torch.equal(compiled(X, a, b), X + 2)
    assert torch.equal(compiled(X, a, a), X + 10)


def test_self_referential_containers_end() -> None:
    def f(x, c):
        return x + len(c), c[0] is c

    loop: list = []
    loop.append(loop)
    check(f, X, loop)


def test_module_globals_are_read_and_written() -> None:
    module = types.ModuleType("made_here")
    exec(
        "import torch\nCOUNT = 0\ndef f(x):\n    global COUNT\n    COUNT += 1\n    return x + COUNT\n", module.__dict__
    )
    compiled = framelift.compile(module.f, backend="eager", fullgraph=True)
    for expected in (1, 2, 3):
        assert torch.equal(compiled(X), X + expected)
        assert module.COUNT == expected
    module.COUNT = 40
    assert torch.equal(compiled(X), X + 41)


def test_a_buffer_assigned_inside_is_read_back() -> None:
    net = torch.nn.BatchNorm1d(3)

    def f(x):
        before = net.running_mean + 0
        net.running_mean = x
        return before, net.running_mean, net._buffers["running_mean"] is x

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    before, mean, same = compiled(X)
    assert torch.equal(before, torch.zeros(3)) and mean is X and same and net.running_mean is X


def test_a_module_attribute_and_its_global_are_one() -> None:
    module = types.ModuleType("made_here_too")
    exec("VALUE = 1\ndef read():\n    return VALUE\ndef write(v):\n    global VALUE\n    VALUE = v\n", module.__dict__)

    def f(x):
        first = module.read() + module.VALUE
        module.VALUE = 5
        second = module.read()
        module.write(7)
        return x + first, second, module.VALUE

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X)[0], X + 2) and module.VALUE == 7
    result = compiled(X)
    assert torch.equal(result[0], X + 14) and result[1:] == (5, 7)


def test_a_class_statement_inside_leaves_the_globals_alone() -> None:
    def f(x):
        class Inside:
            leaked_name = 3

            def go(self, y):
                return y * self.leaked_name

        return Inside().go(x)

    check(f, X)
    assert "leaked_name" not in globals() and "go" not in globals()


def test_nothing_of_a_failed_rehearsal_is_left_behind() -> None:
    box, items, table = Box(1), [1], {"a": 1}

    def f(x):
        box.value = 99
        items.append(2)
        table["b"] = 2
        torch.set_grad_enabled(False)
        if x.sum() > 100:
            return x
        return x + 1

    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(f, backend="eager", fullgraph=True)(X)
    assert box.value == 1 and items == [1] and table == {"a": 1} and torch.is_grad_enabled()
    assert framelift._core.hook_users() == (0, False)


def test_a_property_added_to_a_class_is_seen_by_stores_to_new_instances() -> None:
    class Local:
        def __init__(self, n):
            self.n = n

    def f(x):
        return x + Local(7).n

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X + 7)
    Local.n = property(lambda self: 99)
    with pytest.raises(AttributeError, match="no setter"):
        compiled(X)


def test_a_write_into_overlapping_memory_is_left_to_plain_python() -> None:
    box = Box()

    def f(x):
        box.value = x
        x += 1
        return x

    compiled = framelift.compile(f, backend="eager")
    compiled(torch.zeros(2, 3))
    spread = torch.zeros(3).expand(2, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        compiled(spread)
    assert box.value is spread


def test_a_large_table_is_read_key_by_key() -> None:
    table = {i: i * 2 for i in range(100_000)}

    def f(x, t, key):
        return x + t[key] + t.get(-1, 5), key in t, type(t) is dict

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X, table, 7)[0], X + 19)
    table[8] = 0  # not read: not guarded
    assert torch.equal(compiled(X, table, 7)[0], X + 19) and len(compiled.entries) == 1
    table[7] = 1
    assert torch.equal(compiled(X, table, 7)[0], X + 6)
    table[-1] = 100
    assert torch.equal(compiled(X, table, 7)[0], X + 101)


def test_dictionaries_keyed_by_objects() -> None:
    class Key:
        pass

    first, second = Key(), Key()
    x, y = torch.ones(2), torch.zeros(2)

    def f(table, more):
        table[first] += 1
        more[torch.float32, Key] = table.get(second, 5)
        more[x] = more[x] * 2
        more[y] = x + y
        return [type(key).__name__ for key in table], len(more)

    table, more = {first: 1}, {x: torch.ones(2)}
    framelift.reset()
    compiled = framelift.compile(f, backend="eager")
    want_table, want_more = dict(table), dict(more)
    for number in range(4):
        if number == 1:
            table[second] = want_table[second] = 7
        assert compiled(table, more) == f(want_table, want_more)
        assert table == want_table and [id(k) for k in more if isinstance(k, torch.Tensor)] == [
            id(k) for k in want_more if isinstance(k, torch.Tensor)
        ]
        assert (
            all(torch.equal(more[k], want_more[k]) for k in (x, y))
            and more[torch.float32, Key] == want_more[torch.float32, Key]
        )
    assert not framelift.stats()["breaks"]


def test_deleting_a_global_asks_whether_it_is_there() -> None:
    def program(x):
        global DELETED_ONCE
        try:
            del DELETED_ONCE
        except NameError:
            return x - 1
        return x + 1

    def outcomes(f):
        found = []
        for given in (True, False, False, True):
            globals().pop("DELETED_ONCE", None)
            if given:
                globals()["DELETED_ONCE"] = 1
            found.append((f(torch.ones(2)).tolist(), "DELETED_ONCE" in globals()))
        return found

    assert outcomes(framelift.compile(program, backend="eager", fullgraph=True)) == outcomes(program)


def test_an_empty_module_that_is_written() -> None:
    def f(x):
        module = types.ModuleType.__new__(types.ModuleType)
        module.entry = 1
        return x + len(module.__dict__), dict(module.__dict__), module.entry

    check(f, torch.ones(2), graphs=None, breaks=None)


def test_a_global_of_the_name_of_a_slot() -> None:
    module = types.ModuleType("made_here")
    exec("def f(x):\n    global __class__\n    __class__ = 42\n    return x + globals()['__class__']", module.__dict__)
    assert torch.equal(framelift.compile(module.f, backend="eager")(X), X + 42)
    assert module.__dict__["__class__"] == 42


def test_globals_of_a_module_that_is_not_listed() -> None:
    module = types.ModuleType("loaded_by_hand")
    exec("import collections\nVALUE = 1\ndef f(x):\n    return x + globals()['VALUE']\n", module.__dict__)
    exec("def g(x):\n    return x + 1, collections.namedtuple('Pair', 'a b').__module__", module.__dict__)
    compiled = framelift.compile(module.f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X + 1)
    module.VALUE = 5
    assert torch.equal(compiled(X), X + 5)
    assert framelift.compile(module.g, backend="eager", fullgraph=True)(X)[1] == "loaded_by_hand"
