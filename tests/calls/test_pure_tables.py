"""The tables of C callables are complete for the modules they cover, contradict nothing, and deny what is impure."""

from __future__ import annotations

import collections
import contextlib
import copy
import datetime
import decimal
import doctest
import functools
import importlib
import io
import itertools
import operator
import os
import random
import re
import sys
import threading
import time
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.torch_version import TorchVersion

from framelift.calls.pure import lookup, judges, stdlib_functions, words as pure_table, torch_helpers
from framelift.calls.pure.lookup import JUDGES, STATE_READERS, WORDS, resolve, safe_self_types, verdict
from framelift.calls.pure.words import ALLOWED, DENIALS, is_c_callable
from framelift import _core
from framelift.calls.call_tables import HIGHER_ORDER, PURE, PURE_ON_INTERNALS

#: modules that are denied as a whole
DENIED = [name for name in stdlib_functions.DENIED_MODULES if name in sys.builtin_module_names or name in sys.modules]


def named(value: Any) -> str:
    """A name for the test's report, the same in every run."""
    return getattr(value, "__qualname__", type(value).__name__)


def c_callables(module: types.ModuleType) -> list[tuple[str, Any]]:
    """The C functions and the classes of a module, and the C methods of those classes."""
    result = []
    for name, value in vars(module).items():
        if isinstance(value, type):
            members = ((f"{name}.{n}", getattr(m, "__func__", m)) for n, m in vars(value).items())
            result += [(name, value), *((n, m) for n, m in members if is_c_callable(m))]
        elif is_c_callable(value):
            result.append((name, value))
    return [(name, value) for name, value in result if not name.startswith("__loader__")]


@pytest.mark.parametrize("name", DENIED)
def test_denied_modules_are_denied(name: str) -> None:
    allowed = {
        "allocate_lock",
        "fspath",
        "_path_normpath",
        "_path_splitroot_ex",
        "struct_time",
        "is_tracked",
        "is_finalized",
    }
    for path, value in c_callables(importlib.import_module(name)):
        if isinstance(value, type) or path.split(".")[0] in allowed or "." in path:
            continue  # classes made in Python, such as errors, may be made anywhere
        assert verdict(value, (), {}) not in ALLOWED, path  # given nothing, where arguments decide


def test_no_callable_has_two_words() -> None:
    words: dict[int, set[str]] = collections.defaultdict(set)
    kept = list(lookup.entries())
    for callable_, word in kept:
        words[id(callable_)].add(word)
        assert word in ALLOWED or word in DENIALS, word
    assert [c for c, _ in kept if len(words[id(c)]) > 1] == []


def test_registry_holds_what_the_tables_allow() -> None:
    for key, (callable_, word) in WORDS.items():
        if word in DENIALS:
            assert key not in PURE_ON_INTERNALS, callable_
            # One exception, made where the reason is: super() looks at its frame, which is the twin's.
            assert key not in PURE or callable_ is super, callable_
        if word in ("internals", "text"):
            assert key in PURE_ON_INTERNALS, callable_
    for key, callable_ in HIGHER_ORDER.items():
        assert WORDS[key][1] in ("pure", "judged"), callable_


def test_every_judged_callable_has_a_judge() -> None:
    judged = {key for key, (_, word) in WORDS.items() if word == "judged"}
    assert judged == set(JUDGES)


@pytest.mark.parametrize(
    "callable_",
    [
        time.time,
        time.perf_counter,
        random.random,
        random.Random().random,
        open,
        os.getpid,
        os.getcwd,
        id,
        input,
        print,
        hash,
        eval,
        sys._getframe,
        sys.getrefcount,
        datetime.datetime.now,
        datetime.date.today,
        decimal.getcontext,
        decimal.Decimal,
        threading.local,
        weakref.proxy,
        operator.methodcaller("x"),
        functools.partial(time.time),
        torch.Generator,
        torch._C._set_grad_enabled,
        torch._C._has_torch_function,
        object.__getattribute__,
        type.__call__,
        [].__sizeof__,
        object().__hash__,
        len.__call__,
        list.__subclasses__,
        "x".__class__.__mro__[1].__dir__,
    ],
    ids=named,
)
def test_impure_callables_are_denied(callable_: Any) -> None:
    assert verdict(callable_) not in ALLOWED


@pytest.mark.parametrize(
    "callable_",
    [
        len,
        isinstance,
        sorted,
        [].append,
        list.append,
        {}.get,
        "".join,
        (1).bit_length,
        dict.fromkeys,
        int.from_bytes,
        str.maketrans,
        itertools.chain,
        itertools.chain.from_iterable,
        operator.add,
        operator.itemgetter(0),
        functools.reduce,
        re.compile("a").match,
        re.compile("a").fullmatch,
        re.match("a", "a").group,
        ValueError,
        collections.deque,
        collections.deque().popleft,
        object.__new__,
        datetime.date,
        datetime.timedelta,
        (x for x in ()).send,
        torch.Size,
        torch.Size([1]).numel,
        torch.device,
        torch.finfo,
        torch.is_grad_enabled,
        torch.get_default_dtype,
        torch._C._get_tracing_state,
        torch._C._log_api_usage_once,
        lambda: 0,
        [].__len__,
    ],
    ids=named,
)
def test_pure_callables_are_allowed(callable_: Any) -> None:
    assert verdict(callable_) == "pure"


class OwnList(list):
    def append(self, value: object) -> None:
        super().append(value)


class Local(threading.local):
    pass


class OwnDict(dict):
    pass


class Plain:
    keys = property(lambda self: lambda: ())


@pytest.mark.parametrize(
    ("callable_", "args", "word"),
    [
        (dict, (), "pure"),
        (dict, ({},), "pure"),
        (dict, (zip("a", "b"),), "pure"),
        (dict, (Plain(),), "internals"),
        ({}.update, ({},), "pure"),
        (dict.update, ({}, Plain()), "internals"),
        (OwnDict, ({},), "pure"),
        (OwnDict, (Plain(),), "internals"),
        (collections.defaultdict, (list,), "pure"),
        (collections.defaultdict, (time.time,), "callback"),
        (collections.OrderedDict, (Plain(),), "internals"),
        (types.SimpleNamespace, (), "pure"),
        ("{} {a:>{w}}".format, (1,), "text"),
        ("{0.real}".format, (1,), "attributes"),
        ("{:{0.x}}".format, (1,), "attributes"),
        (str.format_map, ("{a.b}", {}), "attributes"),
        ("{".format, (), "text"),
        (functools.partial, (len,), "pure"),
        (functools.partial, (functools.partial(len),), "pure"),
        (weakref.ref, (Plain(),), "pure"),
        (weakref.ref, (Plain(), print), "effect"),
        (operator.ior, ({}, Plain()), "internals"),
        (operator.ior, (1, 2), "pure"),
        (operator.ior, ({}, {}), "pure"),
        (operator.itemgetter(0), ([1],), "pure"),
        (OwnList, ((),), "pure"),
        (Local, (), "threads"),
        (torch.nn.Linear, (2, 2), "pure"),
        (len, ([],), "pure"),
    ],
    ids=named,
)
def test_arguments_decide(callable_: Any, args: tuple[Any, ...], word: str) -> None:
    assert verdict(callable_, args, {}) == word


def test_bound_methods_lead_to_their_descriptors() -> None:
    own = OwnList()
    assert resolve(super(OwnList, own).append) == (list.append, (own,))
    assert resolve(own.append)[0] is OwnList.append
    assert resolve(datetime.datetime.now) == (vars(datetime.datetime)["now"], (datetime.datetime,))
    assert resolve([].__len__)[0] is vars(list)["__len__"]


def test_every_method_of_a_safe_type_is_judged() -> None:
    safe = safe_self_types()
    assert {list, dict, set, str, tuple, int, float, torch.Size, torch.device, re.Pattern} <= set(safe)
    assert not {torch.Generator, threading.local, io.FileIO} & set(safe)
    for cls in safe:
        for name, member in vars(cls).items():
            member = getattr(member, "__func__", member)
            assert not is_c_callable(member) or id(member) in WORDS, f"{cls.__name__}.{name}"


def test_readers_of_settings_are_pure_and_named() -> None:
    assert {setting for _, setting in STATE_READERS.values()} <= {*stdlib_functions.STATE, *torch_helpers.STATE}
    assert all(key in PURE for key in STATE_READERS)
    assert STATE_READERS[id(torch.is_grad_enabled)][1] == "grad mode"


def test_parts_of_torch_that_the_tables_name_exist() -> None:
    """A renamed helper would fall out of the tables without a word."""
    names = {path for paths in torch_helpers.STATE.values() for path in paths}
    names |= {
        f"{row.module}.{name}"
        for row in torch_helpers.FUNCTIONS
        for word in row.words.values()
        for name in word.split()
    }
    names |= {row.cls for row in torch_helpers.KINDS if isinstance(row.cls, str)}
    missing = {path for path in names if pure_table.found(path) is None}
    missing = {
        path for path in missing if not path.startswith(("torch._C._cuda_", "torch._C._xpu_"))
    }  # by torch's build
    assert missing == {f"torch._C.{name}" for name, first in _FIRST.items() if TorchVersion(torch.__version__) < first}


#: names of the tables that older versions of torch lack, and the first version that has them
_FIRST = {
    "_autograd._make_saved_tensor": (2, 12),
    "_is_ck_sdpa_available": (2, 12),
    "_get_all_dtypes": (2, 13),
    "_get_cudnn_depthwise_kernel": (2, 13),
}


def test_text_with_an_address_is_seen() -> None:
    assert (
        _core.shows_address(repr([Plain()]))
        and _core.shows_address(b"%a" % Plain())
        and _core.shows_address(str(len.__call__))
    )
    assert not _core.shows_address(repr({"a": 1})) and not _core.shows_address(3)


def test_denials_say_why() -> None:
    assert lookup.reason(verdict(time.time)) == DENIALS["clock"]
    assert lookup.reason("") == "not known"


@pytest.mark.parametrize("module", [lookup, judges, pure_table], ids=lambda module: module.__name__)
def test_examples(module: types.ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_page_examples() -> None:
    page = Path(__file__).parents[2] / "docs" / "adding" / "pure_function.md"
    assert doctest.testfile(str(page), module_relative=False).failed == 0


class Bare:
    """Tells of every attribute that is read, also from C: a dunder method looked up on the type is no such read."""

    reads: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        Bare.reads.append(name)
        return object.__getattribute__(self, name)


def _answers(result: Any) -> Any:
    return lambda self, *args, **kwargs: result() if callable(result) else result


class Rich(Bare):
    """The same with dunder methods, so that calls get further."""


for _name, _result in {
    "len": 2,
    "index": 1,
    "int": 1,
    "float": 1.5,
    "complex": 1j,
    "bool": True,
    "iter": lambda: iter([1, 2]),
    "getitem": 1,
    "contains": True,
    "hash": 7,
    "bytes": b"b",
    "next": 1,
    "reversed": lambda: iter([2, 1]),
    "round": 1,
    "floor": 1,
    "ceil": 1,
    "trunc": 1,
    "abs": 1,
    "neg": 1,
    "invert": 1,
    "call": 1,
    "length_hint": 2,
    "fspath": "p",
    "setitem": None,
    "delitem": None,
    "add": 1,
    "radd": 1,
    "iadd": 1,
    "mul": 1,
    "rmul": 1,
    "mod": 1,
    "sub": 1,
    "or": 1,
    "ror": 1,
    "eq": True,
    "lt": True,
    "le": True,
}.items():
    setattr(Rich, f"__{_name}__", _answers(_result))

#: one object of each kind of safe type that Python can show
SAMPLES: tuple[Any, ...] = (
    1,
    True,
    1.5,
    1j,
    "ab",
    b"ab",
    range(3),
    None,
    slice(1, 2),
    [1, 2],
    (1, 2),
    {1, 2},
    frozenset([1]),
    bytearray(b"ab"),
    {"a": 1},
    {"a": 1}.keys(),
    {"a": 1}.items(),
    types.MappingProxyType({"a": 1}),
    types.SimpleNamespace(a=1),
    iter([1]),
    iter({1: 1}),
    enumerate([1]),
    zip([1]),
    map(abs, [1]),
    filter(None, [1]),
    reversed((1, 2)),
    (x for x in (1, 2)),
    ValueError("a"),
    OSError(1, "x"),
    ExceptionGroup("g", [ValueError()]),
    object(),
    collections.deque([1]),
    collections.defaultdict(list),
    collections.OrderedDict(a=1),
    operator.itemgetter(0),
    functools.cmp_to_key(lambda a, b: 0),
    re.compile("a"),
    re.match("a", "a"),
    datetime.date(2020, 1, 1),
    datetime.datetime(2020, 1, 1),
    datetime.timedelta(1),
    decimal.Decimal("1.5"),
    list[int],
    int | str,
    itertools.count(),
    itertools.chain([1]),
    itertools.accumulate([1]),
    torch.Size([1]),
    torch.device("cpu"),
    torch.float32,
    torch.finfo(torch.float32),
)


def _pure_calls() -> Iterator[tuple[str, Any]]:
    """Every pure callable that can be called here: functions, and the methods of the samples."""
    for callable_, word in WORDS.values():
        if word == "pure" and not hasattr(callable_, "__objclass__") and callable_ not in (sys.exit, breakpoint):
            yield named(callable_), callable_
    for sample in SAMPLES:
        for name in dir(type(sample)):
            try:
                bound = getattr(copy.copy(sample), name)
            except Exception:
                continue
            if is_c_callable(bound) and verdict(bound) == "pure":
                yield f"{type(sample).__name__}.{name}", bound


def test_pure_callables_read_no_attributes_of_handles() -> None:
    # Class facts, asked of what is no class, or of what is no tensor.
    harmless = {"__class__", "__bases__", "_abc_impl", "__torch_function__"}
    found = collections.defaultdict(set)
    for name, callable_ in _pure_calls():
        for probe in (Bare(), Rich()):
            for args in (
                (probe,),
                (probe, probe),
                (1, probe),
                ("a", probe),
                ([probe, probe],),
                ({"a": probe},),
                ([2, 1], probe),
            ):
                Bare.reads.clear()
                with contextlib.suppress(BaseException):
                    callable_(*args)
                if read := set(Bare.reads) - harmless:
                    found[name] |= read
    assert not found


def test_tables_are_quick_to_load() -> None:
    """Counted in profiler events, which do not depend on how busy the machine is: 72,000 of them are about 3 ms."""
    events = 0

    def count(_frame: types.FrameType, _event: str, _arg: object) -> None:
        nonlocal events
        events += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        lookup._declare()
    finally:
        sys.setprofile(before)
    assert events < 150_000
