"""A world with one of everything that guards look at, guards on all of it, and random changes that can be undone."""

from __future__ import annotations

import collections
import functools
import random
import types
from collections.abc import Callable
from typing import Any

import torch

from framelift.guards.kinds import Guard, dunders, immutable_leaf, tensor_facts
from framelift.vocabulary.origins import Origin, arg, const

__all__ = ["Guards", "guarded_world", "make_world", "sites"]


class Extra:
    extra = 1


def _make_function(contents: Any) -> types.FunctionType:
    def function(a: Any = (1, 2), b: Any = 2.5, *, k: Any = "text") -> Any:
        return contents, a, b, k

    return function


def make_world(rng: random.Random) -> dict[str, Any]:
    """Fresh classes, so that changing them harms nobody, and one of everything that guards can look at."""
    base = type("Base", (), {"shared": 10, "number": 2.5, "method": lambda self: 1})
    cls = type(
        "Thing", (base,), {"table": {"a": 1, "b": [1, 2]}, "__eq__": lambda a, b: a is b, "__hash__": object.__hash__}
    )
    slotted_cls = type("Slot", (), {"__slots__": ("a", "b")})
    things = [cls() for _ in range(4)]
    for i, thing in enumerate(things):
        thing.scale = float(i) + 0.5
        thing.name = f"name {i}"
        thing.items = [1, 2.5, "three", [i, {"deep": i}]]
        thing.pair = (i, [i, i + 1], {"k": float(i)})
        thing.weight = torch.nn.Parameter(torch.randn(2, 3))
        thing.buffers = {"running": torch.zeros(3), "count": i}
        thing.ordered = collections.OrderedDict(a=i, b=2.5, c=[i])
        thing.queue = collections.deque([1, i], maxlen=5)
    things[0].child, things[1].child = things[1], things[2]
    slotted = slotted_cls()
    slotted.a, slotted.b = 1.5, [1, 2]
    things[0].slotted = slotted
    things[0].function = _make_function([1, 2.5])
    things[1].bound = things[2].method
    things[1].partial = functools.partial(_make_function(3.5), 1.5, [1], k=2)
    things[2].numbers = {1: "one", 2: [2], (1, 2): 3.5}
    things[2].flags = {1, 2, 3}
    module = types.ModuleType("fake")
    module.value, module.thing = 1.5, things[3]
    things[3].module = module
    return {
        "root": things[0],
        "list": [things[1], 3.5, torch.zeros(2)],
        "tensor": torch.zeros(2, 3),
        "classes": [base, cls, slotted_cls],
        "globals": {"glob": things[2], "n": 1.5, "f": _make_function({"x": 1})},
    }


class Guards:
    """Guards on everything reachable, as a rehearsal that reads everything would make them."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.distinct: list[Origin] = []
        self.seen: dict[int, Origin] = {}

    def add(self, origin: Origin, kind: str, value: Any) -> None:
        self.guards.append(Guard(origin, kind, value))

    def read(self, value: Any, at: Origin) -> None:
        if immutable_leaf(value):
            self.add(at, "EQ", value)
            return
        if id(value) in self.seen:
            self.add(at, "SAME", self.seen[id(value)])
            return
        self.seen[id(value)] = at
        self.distinct.append(at)
        if isinstance(value, torch.Tensor):
            self.add(at, "TENSOR", tensor_facts(value, ask_grad=True))
            return
        if not isinstance(value, type):
            self.add(at, "TYPE", type(value))
        for kinds, reader in self.READERS:
            if isinstance(value, kinds):
                reader(self, value, at)
                return
        self.read_instance(value, at)

    def read_dict(self, value: dict[Any, Any], at: Origin) -> None:
        self.add(at, "KEYS", tuple(value))
        for key, item in value.items():
            if type(key) is str:
                self.add(at, "HAS_KEY", key)
            self.read(item, at.to("item", key))

    def read_sequence(self, value: Any, at: Origin) -> None:
        self.add(at, "LEN", len(value))
        if isinstance(value, collections.deque):
            self.add(at.to("attr", "maxlen"), "EQ", value.maxlen)
        for i, item in enumerate(value):
            self.read(item, at.to("item", i))

    def read_set(self, value: Any, at: Origin) -> None:
        frozen = frozenset(value)
        self.add(at, "CHECK", (lambda now: frozen == now, "same elements"))

    def read_function(self, value: types.FunctionType, at: Origin) -> None:
        self.add(at, "CODE", value.__code__)
        for i, item in enumerate(value.__defaults__ or ()):
            self.read(item, at.to("default", i))
        for key, item in (value.__kwdefaults__ or {}).items():
            self.read(item, at.to("kwdefault", key))
        for i, cell in enumerate(value.__closure__ or ()):
            self.read(cell.cell_contents, at.to("cell", i).to("contents"))

    def read_method(self, value: Any, at: Origin) -> None:
        self.read(value.__self__, at.to("self"))
        self.add(at.to("func"), "IS", value.__func__)

    def read_partial(self, value: Any, at: Origin) -> None:
        self.read(value.func, at.to("attr", "func"))
        self.read(value.args, at.to("attr", "args"))
        self.read(value.keywords, at.to("attr", "keywords"))

    def read_type(self, value: type, at: Origin) -> None:
        self.add(at, "DUNDERS", dunders(value))
        self.add(at, "NO_LOOKUP", "nope")
        for name in ("shared", "number", "table"):
            if hasattr(value, name):
                self.read(getattr(value, name), at.to("lookup", name))

    def read_instance(self, value: Any, at: Origin) -> None:
        if hasattr(value, "__slots__"):
            for name in value.__slots__:
                self.read(getattr(value, name), at.to("slot", name))
            return
        own = at.to("dict")
        self.add(own, "ABSENT", "shared")
        names = ("value", "thing") if isinstance(value, types.ModuleType) else tuple(vars(value))
        for name in names:
            self.read(vars(value)[name], own.to("item", name))

    READERS = [
        (dict, read_dict),
        ((list, tuple, collections.deque), read_sequence),
        (set, read_set),
        (types.FunctionType, read_function),
        (types.MethodType, read_method),
        (functools.partial, read_partial),
        (type, read_type),
    ]


def _new_value(rng: random.Random, world: dict[str, Any], old: Any) -> Any:
    choices: list[Callable[[], Any]] = [
        lambda: rng.choice([0, 1, 1.5, 2.5, "text", "name 1", None, True]),
        lambda: [1, 2],
        dict,
        lambda: torch.zeros(2, 3),
        lambda: world["root"],
        lambda: world["list"][0],
        lambda: (1, 2),
    ]
    if type(old) is float:  # an equal value in another object, and another value likely at the same address
        choices += [lambda: float(str(old)), lambda: old + 1.0]
    if type(old) is list:
        choices += [lambda: list(old)]
    return rng.choice(choices)()


Undo = Callable[[], None]


def _change_dict(rng: random.Random, world: dict[str, Any], d: dict[Any, Any]) -> Undo:
    before = list(d.items())

    def undo() -> None:
        d.clear()
        d.update(before)
        if isinstance(d, collections.OrderedDict):
            for key, _ in before:
                d.move_to_end(key)

    key = rng.choice([*d, "new key", "shared"])
    action = rng.randrange(7)
    if action == 6 and key in d and type(key) is str:  # an equal key that is another object
        rows = [("".join(list(one)) if one is key else one, value) for one, value in d.items()]
        d.clear()
        d.update(rows)
    elif action == 0:
        d[key] = _new_value(rng, world, d.get(key))
    elif action == 1:
        d.pop(key, None)
    elif action == 2 and key in d:
        d[key] = d.pop(key)
    elif action == 3:
        d["unrelated"] = 1
        del d["unrelated"]
    elif action >= 4 and isinstance(d, collections.OrderedDict):
        d.move_to_end(rng.choice(list(d)), last=rng.random() < 0.5)
    else:
        d[key] = _new_value(rng, world, d.get(key))
        undo()
    return undo


def _change_list(rng: random.Random, world: dict[str, Any], items: Any) -> Undo:
    before = list(items)

    def undo() -> None:
        items.clear()
        items.extend(before)

    action = rng.randrange(5)
    if action == 0 and items:
        i = rng.randrange(len(items))
        items[i] = _new_value(rng, world, items[i])
    elif action == 1:
        items.append(1)
    elif action == 2 and items:
        items.pop()
    elif action == 3:
        items.reverse()
    else:
        undo()
    return undo


def _change_instance(rng: random.Random, world: dict[str, Any], thing: Any) -> Undo:
    before, own, cls = dict(vars(thing)), thing.__dict__, type(thing)

    def undo() -> None:
        thing.__class__ = cls
        thing.__dict__ = own
        own.clear()
        own.update(before)

    action = rng.randrange(4)
    if action == 0:
        thing.__class__ = type("Thing", (cls,), {})
    elif action == 1:
        thing.__dict__ = dict(before)
        if rng.random() < 0.5:
            vars(thing)["scale"] = 77.0
    elif action == 2:
        name = rng.choice(list(before))
        setattr(thing, name, _new_value(rng, world, before[name]))
    else:
        thing.__dict__ = {}
        thing.__dict__ = dict(before)
    return undo


def _change_slotted(rng: random.Random, world: dict[str, Any], thing: Any) -> Undo:
    name = rng.choice([n for n in thing.__slots__ if hasattr(thing, n)] or ["a"])
    before = getattr(thing, name, 1)
    if rng.random() < 0.3:
        delattr(thing, name)
    else:
        setattr(thing, name, _new_value(rng, world, before))
    return lambda: setattr(thing, name, before)


def _change_function(rng: random.Random, world: dict[str, Any], f: types.FunctionType) -> Undo:
    before = (f.__code__, f.__defaults__, f.__kwdefaults__, dict(f.__kwdefaults__ or {}))
    cells = [(cell, cell.cell_contents) for cell in f.__closure__ or () if cell != types.CellType()]

    def undo() -> None:
        f.__code__, f.__defaults__, f.__kwdefaults__ = before[:3]
        f.__kwdefaults__.clear()
        f.__kwdefaults__.update(before[3])
        for cell, contents in cells:
            cell.cell_contents = contents

    action = rng.randrange(6)
    if action == 0:
        f.__code__ = f.__code__.replace(co_name="renamed")
    elif action == 1:
        f.__defaults__ = tuple(_new_value(rng, world, v) if rng.random() < 0.4 else v for v in before[1] or ())
    elif action == 2 and before[1]:
        f.__defaults__ = None
        f.__defaults__ = (before[1][0], 3.5)
    elif action == 3:
        f.__kwdefaults__["k"] = _new_value(rng, world, f.__kwdefaults__["k"])
    elif action == 4 and cells:
        cells[0][0].cell_contents = _new_value(rng, world, cells[0][1])
    elif cells:
        del cells[0][0].cell_contents
    return undo


def _change_class(rng: random.Random, world: dict[str, Any], cls: type) -> Undo:
    before = {k: v for k, v in vars(cls).items() if k in ("shared", "number", "table", "__eq__", "__hash__")}
    bases = cls.__bases__

    def undo() -> None:
        if cls.__bases__ != bases:
            cls.__bases__ = bases
        for name in ("shared", "number", "table", "nope", "__len__", "__eq__", "unrelated"):
            if name in before:
                setattr(cls, name, before[name])
            elif name in vars(cls):
                delattr(cls, name)

    action = rng.randrange(6)
    if action == 0:
        cls.shared = rng.choice([10, 11])
    elif action == 1:
        cls.nope = 1
    elif action == 2:
        cls.__len__ = lambda self: 1
    elif action == 3 and bases != (object,) and Extra not in bases:
        cls.__bases__ = (*bases, Extra)
    elif action == 4:
        cls.unrelated = 1
    elif "number" in vars(cls):
        cls.number = rng.choice([float("2.5"), 3.5])
    return undo


def _change_tensor(rng: random.Random, world: dict[str, Any], t: torch.Tensor) -> Undo:
    alias, needs = t.detach(), t.requires_grad

    def undo() -> None:
        t.requires_grad_(False)
        t.data = alias
        t.grad = None
        t.requires_grad_(needs)

    action = rng.randrange(6)
    with torch.no_grad():
        if action == 0:
            t.requires_grad_(not needs)
        elif action == 1:
            t.data = torch.zeros(4)
        elif action == 2:
            t.data = torch.zeros_like(alias)
        elif action == 3:
            t.requires_grad_(False)
            t.set_(torch.zeros(5))
        elif action == 4 and t.dim() == 2:
            t.data = alias.t()
        else:
            t.grad = torch.zeros_like(t)
    return undo


def _change_partial(rng: random.Random, world: dict[str, Any], p: Any) -> Undo:
    state = p.__reduce__()[2]
    func, args, keywords, own = state
    p.__setstate__(
        rng.choice(
            [
                (func, (2.5,), keywords, own),
                (len, args, keywords, own),
                (func, args, {"k": 3}, own),
                (func, (*args,), dict(keywords), own),
            ]
        )
    )
    return lambda: p.__setstate__(state)


def _change_set(rng: random.Random, world: dict[str, Any], s: set[Any]) -> Undo:
    before = set(s)
    s.symmetric_difference_update({rng.choice([1, 2, 7])})

    def undo() -> None:
        s.clear()
        s.update(before)

    return undo


CHANGES = [
    ((collections.OrderedDict, dict), _change_dict),
    ((list, collections.deque), _change_list),
    (types.FunctionType, _change_function),
    (type, _change_class),
    (torch.Tensor, _change_tensor),
    (functools.partial, _change_partial),
    (set, _change_set),
]


#: changes that few other guards would notice are tried more often
OFTEN = {_change_instance: 4, _change_partial: 4, _change_slotted: 2}


def sites(world: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Everything in the world that can change, with the function that changes it."""
    found: dict[int, tuple[Any, Any]] = {}
    pending = [v for k, v in world.items() if k != "classes"] + world["classes"]
    while pending:
        value = pending.pop()
        if id(value) in found or immutable_leaf(value):
            continue
        change = next((c for kinds, c in CHANGES if isinstance(value, kinds)), None)
        if change is None:
            change = _change_slotted if hasattr(value, "__slots__") else _change_instance
        if isinstance(value, (tuple, types.MethodType, types.ModuleType)):
            change = None
        found[id(value)] = (value, change)
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, (list, tuple, collections.deque)):
            pending += value
        elif isinstance(value, types.FunctionType):
            pending += [*(value.__defaults__ or ()), *(c.cell_contents for c in value.__closure__ or ())]
        elif isinstance(value, types.MethodType):
            pending.append(value.__self__)
        elif isinstance(value, functools.partial):
            pending += [value.func, *value.args]
        elif isinstance(value, type):
            pending += [v for k, v in vars(value).items() if k == "table"]
        elif hasattr(value, "__slots__"):
            pending += [getattr(value, n) for n in value.__slots__]
        elif hasattr(value, "__dict__") and not isinstance(value, (type, torch.Tensor)):
            pending += [v for k, v in vars(value).items() if not k.startswith("__")] + [vars(value)]
    return [site for site in found.values() if site[1] is not None for _ in range(OFTEN.get(site[1], 1))]


def guarded_world(seed: int) -> tuple[dict[str, Any], tuple[Any, ...], Guards, list[Origin]]:
    world = make_world(random.Random(seed))
    arguments = (world["root"], world["list"], world["tensor"], 2.5)
    guards = Guards()
    for i, value in enumerate(arguments):
        guards.read(value, arg(i, f"a{i}"))
    for cls in world["classes"]:
        guards.read(cls, const(cls))
    guards.read(world["globals"], const(world["globals"]))
    if seed % 2:  # without code that runs at every call, all is recorded
        guards.guards = [g for g in guards.guards if g.kind != "CHECK"]
    inputs = [g.origin for g in guards.guards if g.kind == "TENSOR"]
    return world, arguments, guards, inputs
