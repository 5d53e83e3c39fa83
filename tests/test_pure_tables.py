"""The tables of C callables are complete for the modules they cover, free of contradictions, and deny what is impure."""

from __future__ import annotations

import collections
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
import subprocess
import sys
import threading
import time
import types
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from framelift.rehearsal import pure, pure_judges, pure_stdlib, pure_table, pure_torch
from framelift.rehearsal.pure import JUDGES, STATE_READERS, WORDS, leaks_address, resolve, safe_self_types, verdict
from framelift.rehearsal.pure_table import ALLOWED, DENIALS, is_c_callable
from framelift.rehearsal.registry import HIGHER_ORDER, PURE, PURE_ON_INTERNALS

#: every C callable in these is judged
COVERED = """builtins _abc _bisect _codecs _collections _collections_abc _datetime _decimal _functools _hashlib _heapq _json _operator
_sre _statistics _string _struct _typing _warnings _weakref array binascii cmath itertools math sys types unicodedata zlib""".split()
#: modules that are denied as a whole
DENIED = [name for name in pure_stdlib.DENIED_MODULES if name in sys.builtin_module_names or name in sys.modules]


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


@pytest.mark.parametrize("name", COVERED)
def test_every_c_callable_has_a_word(name: str) -> None:
    module = pytest.importorskip(name)
    silent = [path for path, value in c_callables(module) if not verdict(value)]
    assert not silent, f"no table judges these of {name}: {' '.join(silent)}"


@pytest.mark.parametrize("name", DENIED)
def test_denied_modules_are_denied(name: str) -> None:
    allowed = {"fspath", "struct_time"}
    for path, value in c_callables(importlib.import_module(name)):
        if isinstance(value, type) or path.split(".")[0] in allowed or "." in path:
            continue   # classes made in Python, such as errors, may be made anywhere
        assert verdict(value) not in ALLOWED, path


def test_no_callable_has_two_words() -> None:
    words: dict[int, set[str]] = collections.defaultdict(set)
    kept = list(pure.entries())
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


@pytest.mark.parametrize("callable_", [
    time.time, time.perf_counter, random.random, random.Random().random, open, os.getpid, os.getcwd, id, input, print, hash, eval,
    sys._getframe, sys.getrefcount, datetime.datetime.now, datetime.date.today, decimal.getcontext, decimal.Decimal, io.StringIO,
    threading.Lock, threading.local, weakref.proxy, memoryview, operator.methodcaller("x"), functools.partial(time.time),
    torch.Generator, torch._C._set_grad_enabled, torch._C._has_torch_function, object.__getattribute__, type.__call__,
    [].__sizeof__, object().__hash__, len.__call__, list.__subclasses__, "x".__class__.__mro__[1].__dir__,
], ids=repr)
def test_impure_callables_are_denied(callable_: Any) -> None:
    assert verdict(callable_) in DENIALS


@pytest.mark.parametrize("callable_", [
    len, isinstance, sorted, [].append, list.append, {}.get, "".join, (1).bit_length, dict.fromkeys, int.from_bytes, str.maketrans,
    itertools.chain, itertools.chain.from_iterable, operator.add, operator.itemgetter(0), functools.reduce, re.compile("a").match,
    re.compile("a").fullmatch, re.match("a", "a").group, ValueError, collections.deque, collections.deque().popleft, object.__new__,
    datetime.date, datetime.timedelta, (x for x in ()).send, torch.Size, torch.Size([1]).numel, torch.device, torch.finfo,
    torch.is_grad_enabled, torch.get_default_dtype, torch._C._get_tracing_state, torch._C._log_api_usage_once, lambda: 0, [].__len__,
], ids=repr)
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
    keys = property(lambda self: (lambda: ()))


@pytest.mark.parametrize(("callable_", "args", "word"), [
    (dict, (), "pure"), (dict, ({},), "pure"), (dict, (zip("a", "b"),), "pure"), (dict, (Plain(),), "internals"),
    ({}.update, ({},), "pure"), (dict.update, ({}, Plain()), "internals"), (OwnDict, ({},), "pure"), (OwnDict, (Plain(),), "internals"),
    (collections.defaultdict, (list,), "pure"), (collections.defaultdict, (time.time,), "callback"),
    (collections.OrderedDict, (Plain(),), "internals"), (types.SimpleNamespace, (), "pure"),
    ("{} {a:>{w}}".format, (1,), "text"), ("{0.real}".format, (1,), "attributes"), ("{:{0.x}}".format, (1,), "attributes"),
    (str.format_map, ("{a.b}", {}), "attributes"), ("{".format, (), "text"),
    (functools.partial, (len,), "pure"), (functools.partial, (functools.partial(len),), "attributes"),
    (weakref.ref, (Plain(),), "pure"), (weakref.ref, (Plain(), print), "effect"),
    (operator.attrgetter("a"), (1,), "internals"), (operator.attrgetter("a.b"), (1,), "attributes"),
    (OwnList, ((),), "pure"), (Local, (), "threads"), (torch.nn.Linear, (2, 2), "pure"), (len, ([],), "pure"),
])
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
    assert not {memoryview, torch.Generator, decimal.Decimal, io.StringIO} & set(safe)
    for cls in safe:
        for name, member in vars(cls).items():
            member = getattr(member, "__func__", member)
            assert not is_c_callable(member) or id(member) in WORDS, f"{cls.__name__}.{name}"


def test_readers_of_settings_are_pure_and_named() -> None:
    assert {setting for _, setting in STATE_READERS.values()} <= {*pure_stdlib.STATE, *pure_torch.STATE}
    assert all(key in PURE for key in STATE_READERS)
    assert STATE_READERS[id(torch.is_grad_enabled)][1] == "grad mode"


def test_constants_of_torch_exist() -> None:
    """A renamed helper would fall out of the tables without a word."""
    names = {path for paths in pure_torch.STATE.values() for path in paths}
    missing = [path for path in sorted(names) if pure_table.found(path) is None]
    assert not missing


def test_text_with_an_address_is_seen() -> None:
    assert leaks_address(repr([Plain()])) and leaks_address(b"%a" % Plain()) and leaks_address(str(len.__call__))
    assert not leaks_address(repr({"a": 1})) and not leaks_address(3)


def test_denials_say_why() -> None:
    assert pure.reason(verdict(time.time)) == DENIALS["clock"]
    assert pure.reason("") == "not known"


@pytest.mark.parametrize("module", [pure, pure_judges, pure_table], ids=lambda module: module.__name__)
def test_examples(module: types.ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_page_examples() -> None:
    page = Path(__file__).parents[1] / "docs" / "adding" / "pure_function.md"
    assert doctest.testfile(str(page), module_relative=False).failed == 0


def test_tables_are_quick_to_load() -> None:
    """Counted in function calls, which do not depend on how busy the machine is."""
    program = ("import sys, torch, framelift.rehearsal.registry\n"
               "import framelift.rehearsal.pure as pure\n"
               "calls = 0\n"
               "def count(frame, event, arg):\n"
               "    global calls\n"
               "    calls += 1\n"
               "sys.setprofile(count)\n"
               "pure._declare()\n"
               "sys.setprofile(None)\n"
               "print(calls)\n")
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert int(out.split()[-1]) < 60_000
