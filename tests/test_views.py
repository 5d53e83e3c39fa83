"""Dictionaries that are imported entry by entry answer as plain ones do, whoever asks: opcodes, their methods, dict's own, C functions."""

from __future__ import annotations

import collections
import copy
import json
import operator
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import config


def _matched(d: Any) -> Any:
    match d:
        case {"a": value, **rest}:
            return value * 10 + len(rest)


def _extended(d: Any) -> Any:
    made: dict[str, Any] = {}
    made.update(d)
    return len(made)


def _or_in_place(d: Any) -> Any:
    d |= {"z": 5}
    return len(d)


def _cleared(d: Any) -> Any:
    d.clear()
    return len(d)


def _updated(d: Any) -> Any:
    dict.update(d, z=7)
    return d["z"] + len(d)


ASKED: dict[str, Callable[[Any], Any]] = {
    "[]": lambda d: d["a"], "get": lambda d: d.get("a"), "in": lambda d: "a" in d, "len": lambda d: len(d), "bool": lambda d: bool(d),
    "dict.get": lambda d: dict.get(d, "a"), "dict.__getitem__": lambda d: dict.__getitem__(d, "a"), "dict.__len__": lambda d: dict.__len__(d),
    "dict.items": lambda d: sum(v for _, v in dict.items(d)), "dict.keys": lambda d: len(list(dict.keys(d))), "dict.copy": lambda d: len(dict.copy(d)),
    "dict.__contains__": lambda d: dict.__contains__(d, "a"), "dict.values": lambda d: sum(dict.values(d)), "fromkeys": lambda d: len(dict.fromkeys(d)),
    "dict()": lambda d: len(dict(d)), "**": lambda d: len({**d, "z": 1}), "|": lambda d: len(d | {}), "r|": lambda d: len({} | d),
    "==": lambda d: {"a": 1, "k0": 0} == d, "!=": lambda d: d != {}, "list": lambda d: len(list(d)), "set": lambda d: len(set(d)),
    "__class__": lambda d: d.__class__ is dict, "type": lambda d: type(d) is dict, "isinstance": lambda d: isinstance(d, dict),
    "call": lambda d: (lambda **k: len(k))(**d), "f-string": lambda d: len(f"{d}"), "str": lambda d: len(str(d)), "tuple": lambda d: len((*d,)),
    "pop": lambda d: d.pop("a"), "setdefault": lambda d: d.setdefault("z", 3), "in keys": lambda d: "a" in d.keys(), "bound": lambda d: sum(map(d.get, ["a"])),
    "itemgetter": lambda d: operator.itemgetter("a")(d), "format_map": lambda d: len("{a}".format_map(d)), "%": lambda d: len("%(a)s" % d),
    "ChainMap": lambda d: collections.ChainMap(d)["a"], "OrderedDict": lambda d: len(collections.OrderedDict(d)), "json": lambda d: len(json.dumps(d)),
    "copy": lambda d: len(copy.copy(d)), "deepcopy": lambda d: len(copy.deepcopy(d)), "proxy": lambda d: len(types.MappingProxyType(d)),
    "namespace": lambda d: types.SimpleNamespace(**d).a, "zip": lambda d: len(list(zip(d, d))), "Counter": lambda d: sum(collections.Counter(d).values()),
    "sorted": lambda d: len(sorted(d)), "reversed": lambda d: len(list(reversed(d))), "join": lambda d: len(",".join(d)), "match": _matched, "update": _extended,
    "|=": _or_in_place, "clear": _cleared, "popitem": lambda d: d.popitem()[1], "dict.update": _updated, "dict.__eq__": lambda d: dict.__eq__(d, {}) is True,
}


class Holder:
    pass


def _as_argument(i: int) -> tuple[Any, Callable[[Any], Any]]:
    return {"a": i + 1, f"k{i}": i}, lambda d: d


def _as_attributes(i: int) -> tuple[Any, Callable[[Any], Any]]:
    holder = Holder()
    holder.__dict__.update({"a": i + 1, f"k{i}": i})
    return holder, lambda h: h.__dict__


@pytest.mark.parametrize("large", [4096, 1])
@pytest.mark.parametrize("make", [_as_argument, _as_attributes])
@pytest.mark.parametrize("how", ASKED)
def test_views_answer_as_dictionaries_do(how: str, make: Any, large: int) -> None:
    ask, (_, reach) = ASKED[how], make(0)

    def f(x: torch.Tensor, given: Any) -> torch.Tensor:
        return x * ask(reach(given))

    compiled = framelift.compile(f, backend="eager")
    with config.patch(large_container=large):
        for i in range(3):
            (mine, _), (other, _) = make(i), make(i)
            assert torch.equal(compiled(torch.ones(2), mine), f(torch.ones(2), other))
            assert reach(mine) == reach(other) and list(reach(mine)) == list(reach(other))
