"""Captures kept on disk, in one process: `reset` forgets all but the files.

What changes the meaning of a program is a miss.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Sized
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import framelift
from framelift import config
from framelift.cache import seal, store
from kept_support import check, counted

SCALE = 2
TABLE = {"a": 1, "b": [2, 3]}


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path)):
        yield


def helper(x: torch.Tensor, by: int = 2) -> torch.Tensor:
    return x * by


def other(x: torch.Tensor, by: int = 2) -> torch.Tensor:
    return x - by


class Config:
    kind = "sum"

    def __init__(self) -> None:
        self.width = 3
        self.act = torch.nn.functional.relu

    @property
    def double(self) -> int:
        return 2 * self.width


def program(x: torch.Tensor, options: Config, *more: int, flag: bool = False) -> Any:
    y = helper(x) * SCALE + TABLE["b"][0] + options.double
    if options.kind == "sum":
        y = options.act(y).sum(dim=0)
    return {"y": y, "more": [*more, flag], "name": f"{options.kind}-{len(TABLE)}"}


def test_a_capture_is_loaded() -> None:
    x, options = torch.randn(3, 4), Config()
    check(program, x, options, 1, 2, loaded=False)
    check(program, x, options, 1, 2, loaded=True)
    check(program, torch.randn(3, 4), Config(), 1, 2, loaded=True)
    check(program, x, options, 1, 2, flag=True, loaded=False)
    check(program, x.double(), options, 1, 2, loaded=False)
    check(program, x.double(), options, 1, 2, loaded=True)


class Lengthless:
    pass


OPTIONS = Lengthless()


def asks_an_abstract_class(x: torch.Tensor) -> Any:
    return x + isinstance(OPTIONS, Sized), isinstance(OPTIONS, Hashable)


def test_first_questions_to_an_abstract_class() -> None:
    """Nothing remembers the answers yet: each class below the one that is asked is asked, those of no name too."""
    for loaded in (False, True):
        for one in (Sized, Hashable):
            one._abc_caches_clear()
        check(asks_an_abstract_class, torch.ones(2), loaded=loaded)


CHANGES: dict[str, Callable[[pytest.MonkeyPatch, Config], Any]] = {
    "a global": lambda patch, options: patch.setitem(globals(), "SCALE", 7),
    "an entry of a global table": lambda patch, options: patch.setitem(TABLE, "b", [5, 3]),
    "the length of a global table": lambda patch, options: patch.setitem(TABLE, "c", 0),
    "a function": lambda patch, options: patch.setitem(globals(), "helper", other),
    "the code of a function": lambda patch, options: patch.setattr(helper, "__code__", other.__code__),
    "a default": lambda patch, options: patch.setattr(helper, "__defaults__", (5,)),
    "an attribute of an instance": lambda patch, options: setattr(options, "width", 4),
    "a function in an instance": lambda patch, options: setattr(options, "act", torch.nn.functional.gelu),
    "an attribute of a class": lambda patch, options: patch.setattr(Config, "kind", "none"),
    "a property": lambda patch, options: patch.setattr(Config, "double", property(lambda self: 1)),
    "special methods of a class": lambda patch, options: patch.setattr(
        Config, "__getattr__", lambda self, name: 0, raising=False
    ),
    "grad mode": lambda patch, options: torch.set_grad_enabled(False),
    "an option": lambda patch, options: patch.setattr(config, "specialize_int", True),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changed_is_rehearsed_again(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, options = torch.randn(3, 4), Config()
    check(program, x, options, loaded=False)
    change(monkeypatch, options)
    check(program, x, options, loaded=False)


SOURCE = """
import torch
def inner(x): return x.sin()
def outer(x):
    unused = 1
    return inner(x) + 1
"""


@pytest.mark.parametrize(
    "edited", [SOURCE, SOURCE.replace("sin", "cos"), SOURCE.replace("unused = 1", "unused = 2"), "\n" + SOURCE]
)
def test_any_edit_of_what_is_computed_is_a_miss(edited: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, text in enumerate((SOURCE, edited)):
        module = types.ModuleType("edited_module")
        monkeypatch.setitem(sys.modules, "edited_module", module)
        exec(compile(text, "edited_module.py", "exec"), vars(module))
        check(module.outer, torch.ones(3), loaded=number == 1 and edited.lstrip() == SOURCE.lstrip())


def adder(by: Any) -> Callable[..., Any]:
    def add(x: torch.Tensor) -> torch.Tensor:
        return x + by

    return add


def test_closures() -> None:
    x = torch.ones(3)
    check(adder(1), x, loaded=False)
    check(adder(1), x, loaded=True)
    check(adder(2), x, loaded=False)
    check(adder(torch.ones(3)), x, loaded=False)


NAMES = {"one", "two", "three"}
ANY_ORDER: dict[str, Callable[[torch.Tensor], Any]] = {
    "sorted": lambda x: (x + 1, sorted(NAMES), sorted(frozenset(NAMES))),
    "least and most": lambda x: (x + len(min(NAMES)), max(NAMES)),
    "any, all": lambda x: x + any(NAMES) + all({"one", ""}),
}
OWN_ORDER: dict[str, Callable[[torch.Tensor], Any]] = {
    "list": lambda x: (x, list(NAMES)),
    "by a key": lambda x: (x, sorted(NAMES, key=len)),
    "a loop": lambda x: (x, [name for name in NAMES]),
    "with None": lambda x: (x, any({None, "one"})),
}


@pytest.mark.parametrize("function", ANY_ORDER.values(), ids=ANY_ORDER)
def test_what_any_order_of_a_set_gives_is_kept(function: Any) -> None:
    check(function, torch.ones(3), loaded=False)
    check(function, torch.ones(3), loaded=True)


@pytest.mark.parametrize("function", OWN_ORDER.values(), ids=OWN_ORDER)
def test_the_order_of_a_set_is_not_kept(function: Any) -> None:
    check(function, torch.ones(3), loaded=False)
    check(function, torch.ones(3), loaded=False)


def test_functions_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * np.prod((2, 3))

    check(f, torch.ones(3), loaded=False)
    check(f, torch.ones(3), loaded=True)
    monkeypatch.setattr(np, "prod", np.sum)
    check(f, torch.ones(3), loaded=False)


KINDS = int | None
ROWS = list[int]


def test_types_made_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, by: Any) -> Any:
        return (x + 1 if isinstance(by, KINDS) else x - 1), ROWS.__args__[0] is int

    x = torch.ones(3)
    check(f, x, 2, loaded=False)
    monkeypatch.setitem(globals(), "KINDS", int | None)
    check(f, x, 2, loaded=True)
    monkeypatch.setitem(globals(), "KINDS", str | None)
    check(f, x, 2, loaded=False)
    monkeypatch.setitem(globals(), "ROWS", list[str])
    check(f, x, 2, loaded=False)


def test_two_functions_that_were_two_are_not_one() -> None:
    def same(x: torch.Tensor, f: Any, g: Any) -> Any:
        return (f(x) + g(x), 1) if f is g else (f(x) - g(x), 2)

    x, one, two = torch.ones(3), adder(1), adder(1)
    check(same, x, one, two, loaded=False)
    check(same, x, one, one, loaded=False)
    check(same, x, two, one, loaded=True)
    check(same, x, two, two, loaded=True)


IDENTITIES = """
NAME, OTHER, BIG = "hello", "hello", 123456789
def a_constant(x): return x + 1 if NAME is "hello" else x + 2
def a_number(x): return x + 1 if BIG is 123456789 else x + 2
def two_places(x): return x + 1 if NAME is OTHER else x + 2
def a_singleton(x): return x + 1 if NAME is None else x + 2
"""
SPLIT = "NAME, BIG = ''.join(['hel', 'lo']), int('123456789')"


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("first", ["", SPLIT])
@pytest.mark.parametrize("name", ["a_constant", "a_number", "two_places", "a_singleton"])
def test_which_of_equal_values_it_is(name: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for change in (first, "" if first else SPLIT):
        module = types.ModuleType("identities")
        monkeypatch.setitem(sys.modules, "identities", module)
        exec(compile(IDENTITIES, "identities.py", "exec"), vars(module))
        exec(change, vars(module))
        check(getattr(module, name), torch.ones(3), loaded=name == "a_singleton" and change != first)


def test_globals_and_modules_that_have_no_name() -> None:
    """As of code that is executed in a dictionary of its own: what is there is guarded, name or not."""
    text = "def outer(x): return inner(x) * side.level\ndef inner(x): return x + LEVEL"
    for level, side_level, loaded in ((1, 2, False), (1, 2, True), (2, 2, False), (1, 3, False), (2, 2, True)):
        side = types.ModuleType("side_of_nobody")
        space = {"__name__": "no_module", "LEVEL": level, "side": side}
        side.level = side_level
        exec(compile(text, "no_module.py", "exec"), space)
        check(space["outer"], torch.ones(3), loaded=loaded)


def walks_a_set(x: torch.Tensor, names: tuple[str, ...]) -> Any:
    return x + 1, list(set(names))


def asks_for_a_hash(x: torch.Tensor, name: str) -> Any:
    return x + hash(name) % 7


def asks_a_text_for_its_hash(x: torch.Tensor, name: str) -> Any:
    return x + name.__hash__() % 7


def walks_numbers(x: torch.Tensor) -> Any:
    return x + 1, list({3, 1, 2})


def test_what_another_process_sees_otherwise_is_not_kept() -> None:
    for function, *args in ((walks_a_set, ("a", "b", "c")), (asks_for_a_hash, "a"), (asks_a_text_for_its_hash, "a")):
        check(function, torch.ones(3), *args, loaded=False)
        check(function, torch.ones(3), *args, loaded=False)
        assert framelift.stats()["not_kept"]
    check(walks_numbers, torch.ones(3), loaded=False)
    check(walks_numbers, torch.ones(3), loaded=True)


def test_effects_and_failures_are_those_of_a_rehearsal() -> None:
    def write(x: torch.Tensor, log: dict[str, Any], items: list[int]) -> torch.Tensor:
        x.add_(1)
        log["last"] = items.pop()
        return x[items[0]]

    for _ in range(2):
        framelift.reset()
        x, log, items = torch.zeros(3), {}, [1, 2]
        result = framelift.compile(write, backend="eager")(x, log, items)
        assert (result, log, items) == (1, {"last": 2}, [1]) and x.tolist() == [1, 1, 1]
    assert framelift.stats()["loaded"] == 1
    with pytest.raises(IndexError):
        framelift.compile(write, backend="eager")(torch.zeros(3), {}, [5, 2])


def files(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("*.capture"))


def test_damaged_files_are_a_miss(tmp_path: Path) -> None:
    x, options = torch.randn(3, 4), Config()
    check(program, x, options, loaded=False)
    (file,) = files(tmp_path)
    whole, key = file.read_bytes(), file.parent.name
    assert len(list(store.records(key))) == 1
    chance = random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        if chance.random() < 0.3:
            del damaged[chance.randrange(len(damaged)) :]
        else:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        file.write_bytes(damaged)
        assert list(store.records(key)) == []
    check(program, x, options, loaded=False)
    file.write_bytes(whole)
    check(program, x, options, loaded=True)


def test_a_file_without_the_users_key_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3)
    check(adder(1), x, loaded=False)
    (file,) = files(tmp_path)
    head, _, payload = file.read_bytes().split(b"\n", 2)
    record = json.loads(payload)
    record["plan"][0] = "import os; os._exit(7)\n" + record["plan"][0]
    forged = json.dumps(record).encode()
    file.write_bytes(head + b"\n" + seal.mac(b"x" * 32, f"capture {file.parent.name}", forged) + b"\n" + forged)
    check(adder(1), x, loaded=False)
    (good,) = [one for one in files(tmp_path) if one != file] or [file]
    moved = file.parent.parent / ("0" * 40) / good.name  # the place is part of what is authenticated
    moved.parent.mkdir()
    moved.write_bytes(good.read_bytes())
    assert list(store.records("0" * 40)) == []
    (tmp_path / "key").chmod(0o644)  # a key that others may read is no secret
    assert list(store.records(file.parent.name)) == []


def test_odd_records_are_a_miss(tmp_path: Path) -> None:
    x = torch.ones(3)
    check(adder(1), x, loaded=False)
    (file,) = files(tmp_path)
    record = json.loads(file.read_bytes().split(b"\n", 2)[2])
    for name in list(record):
        for value in (None, [], {}, 7, "text"):
            file.unlink(missing_ok=True)
            for one in files(tmp_path):
                one.unlink()
            assert store.write(file.parent.name, {**record, name: value})
            result, _, _ = counted(adder(1), x)
            assert result.tolist() == [2, 2, 2]


def test_the_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_size", 1)
    monkeypatch.setattr(store, "_since_bounded", 0)
    for number in range(40):
        assert store.write(f"{number:040}", {"text": "x" * 100_000, "number": number})
    assert sum(one.stat().st_size for one in files(tmp_path)) < 40 * 100_000


def test_the_cache_is_off(tmp_path: Path) -> None:
    with config.patch(cache=False):
        check(adder(1), torch.ones(3), loaded=False)
        check(adder(1), torch.ones(3), loaded=False)
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with config.patch(cache_dir=str(tmp_path / "file")):
        check(adder(1), torch.ones(3), loaded=False)
        assert framelift.stats()["not_kept"]


@pytest.mark.parametrize(("cache", "compiled"), [("auto", True), ("auto", False), (False, True), (True, False)])
def test_captures_are_kept_for_backends_that_keep_their_work(
    cache: Any, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framelift.backends.builtin.eager, "has_disk_cache", compiled, raising=False)
    with config.patch(cache=cache):
        for _ in range(2):
            framelift.reset()
            framelift.compile(helper, backend="eager")(torch.ones(2))
    expected = cache is True or cache == "auto" and compiled
    assert framelift.stats()["loaded"] == int(expected) and framelift.stats()["captures"] == int(not expected)


def test_the_environment_turns_it_off_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from framelift.config import OPTIONS, _environment

    for text, value in (("0", False), ("off", False), ("1", True), ("true", True), ("auto", "auto")):
        monkeypatch.setenv("FRAMELIFT_CACHE", text)
        assert _environment("cache", OPTIONS["cache"]) is value or text == "auto" == value
    monkeypatch.delenv("FRAMELIFT_CACHE")
    assert _environment("cache", OPTIONS["cache"]) == "auto"


_WITHOUT_SETTINGS = """
import torch, framelift
from framelift.cache.store import folder
from torch._inductor.runtime.runtime_utils import cache_dir
before = folder()
cache_dir()  # Inductor sets TORCHINDUCTOR_CACHE_DIR to its default
assert folder() == before, folder()
framelift.compile(lambda x: x * 2, backend="eager")(torch.ones(8))
print(framelift.stats()["captures"], framelift.stats()["loaded"])
"""


def test_a_second_process_without_any_settings_loads(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_WITHOUT_SETTINGS)
    unset = ("TORCHINDUCTOR_CACHE_DIR", "FRAMELIFT_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "FRAMELIFT_CACHE": "1"}
    command = [sys.executable, str(tmp_path / "program.py")]
    said = [subprocess.run(command, env=environment, capture_output=True, text=True) for _ in range(2)]
    assert [one.stdout for one in said] == ["1 0\n", "0 1\n"], said[-1].stderr


def test_captures_are_kept_beside_what_inductor_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    with config.patch(cache_dir=""):
        assert store.folder() == str(tmp_path / "inductor" / "framelift")
        assert seal.user_key(make=True) is not None
        assert os.listdir(tmp_path / "user" / "framelift") == ["key"] and not (tmp_path / "inductor").exists()
    with config.patch(cache_dir=str(tmp_path / "own")):
        assert store.folder() == str(tmp_path / "own")
