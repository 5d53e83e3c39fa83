"""Settled programs see every change of a dictionary, whoever makes it.

From CPython 3.12 on they do not look at its version.
"""

from __future__ import annotations

import collections
import ctypes
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framelift import config
from framelift.guards.kinds import Guard
from framelift.guards.native_program import build_program
from framelift.guards.reference import check_reference
from framelift.vocabulary.origins import Origin, arg

HOLDER = arg(0, "holder")


class Plain:
    pass


class Sub(dict[Any, Any]):
    pass


def _fill(d: Any) -> Any:
    d.update(a=1, b=2)
    return d


def _instance() -> Any:
    made = Plain()
    made.a, made.b = 1, 2  # type: ignore[attr-defined]
    return made


def _module() -> Any:
    return _fill_attributes(types.ModuleType("watched"))


def _fill_attributes(holder: Any) -> Any:
    holder.a, holder.b = 1, 2
    return holder


#: a holder, the dictionary of it that is guarded, and where that is
HOLDERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Origin]] = {
    "dict": (lambda: [_fill({})], lambda h: h[0], HOLDER.to("item", 0)),
    "OrderedDict": (lambda: [_fill(collections.OrderedDict())], lambda h: h[0], HOLDER.to("item", 0)),
    "defaultdict": (lambda: [_fill(collections.defaultdict(int))], lambda h: h[0], HOLDER.to("item", 0)),
    "subclass": (lambda: [_fill(Sub())], lambda h: h[0], HOLDER.to("item", 0)),
    "dict of a dict": (lambda: {"d": _fill({})}, lambda h: h["d"], HOLDER.to("item", "d")),
    "instance": (_instance, lambda h: h.__dict__, HOLDER.to("dict")),
    "module": (_module, lambda h: h.__dict__, HOLDER.to("dict")),
}


def _c_api(name: str, *arguments: Any) -> None:
    getattr(ctypes.pythonapi, name)(*map(ctypes.py_object, arguments))


def _replace(holder: Any, make: Callable[[Any], Any]) -> None:
    """Another dictionary in its place; the old one is freed first, so that its address may be used again."""
    if isinstance(holder, list):
        kind, holder[0] = type(holder[0]), None
        holder[0] = make(kind() if kind is not collections.defaultdict else kind(int))
    elif isinstance(holder, dict):
        holder["d"] = None
        holder["d"] = make({})
    elif isinstance(holder, Plain):
        holder.__dict__ = make({})


def _run(holder: Any, source: str) -> None:
    if isinstance(holder, types.ModuleType):
        exec(f"global a, b, c\n{source}", holder.__dict__)


#: what a program may do; each is given the holder and its dictionary
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda h, d: None,
    "set": lambda h, d: d.__setitem__("a", 5),
    "set to the same": lambda h, d: d.__setitem__("a", 1),
    "set another": lambda h, d: d.__setitem__("b", 5),
    "add": lambda h, d: d.__setitem__("c", 5),
    "add and delete": lambda h, d: (d.__setitem__("c", 5), d.__delitem__("c")),
    "delete": lambda h, d: d.__delitem__("a"),
    "delete and put back": lambda h, d: (d.__delitem__("a"), d.__setitem__("a", 1)),
    "pop": lambda h, d: d.pop("a"),
    "popitem": lambda h, d: d.popitem(),
    "clear": lambda h, d: d.clear(),
    "clear and fill": lambda h, d: (d.clear(), d.update(a=1, b=2)),
    "clear and fill from another": lambda h, d: (d.clear(), d.update({"a": 1, "b": 7})),
    "update": lambda h, d: d.update({"a": 5}),
    "update by keywords": lambda h, d: d.update(c=5),
    "or": lambda h, d: d.__ior__({"a": 5}),
    "init again": lambda h, d: type(d).__init__(d, *((int,) if type(d) is collections.defaultdict else ()), a=5),
    "setdefault": lambda h, d: d.setdefault("c", 5),
    "a missing key": lambda h, d: d["c"] if type(d) is collections.defaultdict else None,
    "a key of another kind": lambda h, d: d.__setitem__(7, 5),
    "many keys": lambda h, d: d.update({str(i): i for i in range(100)}),
    "dict's own set": lambda h, d: dict.__setitem__(d, "a", 5),
    "dict's own clear": lambda h, d: dict.clear(d),
    "dict's own popitem": lambda h, d: dict.popitem(d) if type(d) is not collections.OrderedDict else None,
    "C: set": lambda h, d: _c_api("PyDict_SetItem", d, "a", 5),
    "C: delete": lambda h, d: _c_api("PyDict_DelItem", d, "a"),
    "C: clear": lambda h, d: _c_api("PyDict_Clear", d),
    "C: update": lambda h, d: _c_api("PyDict_Update", d, {"a": 5}),
    "setattr": lambda h, d: hasattr(h, "__dict__") and setattr(h, "a", 5),
    "delattr": lambda h, d: hasattr(h, "__dict__") and delattr(h, "a"),
    "global": lambda h, d: _run(h, "a = 5"),
    "del global": lambda h, d: _run(h, "del a"),
    "one like it in its place": lambda h, d: _replace(h, _fill),
    "another in its place": lambda h, d: _replace(h, lambda made: (made.update(a=5, b=2), made)[1]),
    "another class": lambda h, d: setattr(h, "__class__", type("Other", (), {})) if isinstance(h, Plain) else None,
}


def _settled(make: Callable[[], Any], place: Origin, dict_of: Callable[[Any], Any]) -> tuple[Any, list[Guard], Any]:
    holder = make()
    guards = [
        Guard(HOLDER, "TYPE", type(holder)),
        Guard(place, "TYPE", type(dict_of(holder))),
        Guard(place.to("item", "a"), "EQ", 1),
        Guard(place, "ABSENT", "c"),
        Guard(place, "HAS_KEY", "b"),
    ]
    with config.patch(verify_guards=False):
        program = build_program(guards, [place.to("item", "b")], [], [], None)[0]
    for _ in range(12):
        assert program.check((holder,)) is None
    assert not program.unsettled()
    return program, guards, holder


def _agrees(program: Any, guards: list[Guard], holder: Any) -> bool:
    expected = check_reference(guards, [], None, (holder,))
    for _ in range(2):
        assert (program.check((holder,)) is None) == (expected is None)
    if expected is None:
        assert program.values((holder,))[0] == (_b_of(holder),)
    return expected is None


def _b_of(holder: Any) -> Any:
    d = holder[0] if isinstance(holder, list) else holder.get("d") if isinstance(holder, dict) else holder.__dict__
    return dict.get(d, "b")


@pytest.mark.parametrize("kind", HOLDERS)
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(kind: str, change: str) -> None:
    make, dict_of, place = HOLDERS[kind]
    program, guards, holder = _settled(make, place, dict_of)
    for _ in range(2):
        try:
            CHANGES[change](holder, dict_of(holder))
        except (
            KeyError,
            AttributeError,
            NameError,
            TypeError,
        ):  # not every holder can be changed twice, or in this way
            pass
        if not _agrees(program, guards, holder):
            return
        for _ in range(20):  # until it is settled again
            assert program.check((holder,)) is None


@pytest.mark.parametrize("kind", HOLDERS)
def test_programs_that_share_a_dictionary_all_see_it(kind: str) -> None:
    make, dict_of, place = HOLDERS[kind]
    program, guards, holder = _settled(make, place, dict_of)
    others = [program.copy() for _ in range(3)]
    for other in others:
        for _ in range(12):
            assert other.check((holder,)) is None
    del others[1]  # one that ended leaves nothing behind
    for value in (5, 1, 6):
        dict_of(holder)["a"] = value
        expected = check_reference(guards, [], None, (holder,)) is None
        for one in (program, *others):
            assert (one.check((holder,)) is None) == expected == (value == 1)
            for _ in range(12):
                one.check((holder,))


def test_a_change_by_a_function_that_a_guard_calls() -> None:
    """What runs between two looks at the dictionaries may change them."""
    holder = types.SimpleNamespace(d={"a": 1}, armed=False)

    def changing(*values: Any) -> bool:
        if holder.armed:
            holder.d["a"] = 2
        return True

    place = HOLDER.to("dict").to("item", "d").to("item", "a")
    other = arg(1, "x")
    guards = [Guard(place, "EQ", 1), Guard(place, "JOINT", (changing, "changing", (other,)))]
    with config.patch(verify_guards=False):
        program = build_program(guards, [], [], [], None)[0]
    for _ in range(3):
        assert program.check((holder, 0)) is None
    holder.armed = True  # before it is settled
    assert program.check((holder, 0)) is None and holder.d["a"] == 2
    for _ in range(8):
        assert program.check((holder, 0)) is not None
    holder.armed, holder.d["a"] = False, 1
    for _ in range(12):
        assert program.check((holder, 0)) is None
    holder.armed = True  # after
    assert program.check((holder, 0)) is None and program.check((holder, 0)) is not None


def _exhausted() -> Iterator[str]:
    """A program in a process where others, torch among them, have all of CPython's watchers."""
    yield "import ctypes, sys, torch"
    yield "callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 3)(lambda *a: 0)"
    yield "add = getattr(ctypes.pythonapi, 'PyDict_AddWatcher', None)"
    yield "try:"
    yield "    while add: add(callback)"
    yield "except RuntimeError: pass"
    yield "import pytest"
    yield f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-k', 'every_change', {__file__!r}]))"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="dictionaries have no versions: guards are asked in each call")
def test_without_a_watcher_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", "\n".join(_exhausted())], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
