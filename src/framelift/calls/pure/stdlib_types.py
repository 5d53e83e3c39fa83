"""Which C types of the standard library may be made, and their methods called, natively.  Data only."""

from __future__ import annotations

import decimal
import functools
import itertools
import re
import struct
from typing import Any

from ..._core import is_a
from ...vocabulary.plain_types import DICTIONARIES
from .words import Kind, found

#: plain values: even the hash is one
_VALUE = {"pure": "__hash__"}


def _views(table: Any) -> list[type]:
    return [type(part) for part in (table.keys(), table.values(), table.items(), iter(table))]


def _collections() -> tuple[Kind, ...]:
    judged = {"pure": "__new__", "judged": "__init__ update __ior__"}
    tables = [kind for kind in DICTIONARIES if kind is not dict]
    views = {view for kind in tables for view in _views(kind())}.difference(_views({}))
    special = {*tables, found("_collections._tuplegetter")}
    return (
        *(Kind(value) for value in vars(found("_collections")).values() if is_a(value, type) and value not in special),
        *(Kind(table, make="judged", words=judged) for table in tables),
        *map(Kind, views),
        Kind("_collections._tuplegetter", words={"internals": "__get__"}),
        Kind("array.array", words={"files": "fromfile tofile", "address": "buffer_info"}),
        Kind("array.ArrayType", words={"files": "fromfile tofile", "address": "buffer_info"}),
    )


def _functional() -> tuple[Kind, ...]:
    return (
        *(Kind(value) for value in vars(itertools).values() if is_a(value, type) and value.__module__ == "itertools"),
        Kind("_operator.itemgetter", words={"pure": "__call__"}),
        Kind("_operator.attrgetter"),
        Kind("_operator.methodcaller"),
        Kind(type(functools.cmp_to_key(max)), words={"pure": "__call__"}),
    )


#: what a file tells of the system, or gives away
_OF_THE_SYSTEM = "fileno detach reconfigure _dealloc_warn"


def _text_and_bytes() -> tuple[Kind, ...]:
    pattern: Any = re.compile("")
    return (
        Kind(re.Pattern, words=_VALUE),
        Kind(re.Match),
        Kind(type(pattern.scanner(""))),
        Kind("_struct.Struct"),
        Kind(type(struct.iter_unpack("b", b""))),
        # The encoder reads containers from memory, the scanner calls what an object holds.
        Kind("_json.make_encoder", make="memory", methods="memory"),
        Kind("_json.make_scanner", make="attributes", methods="callback"),
        # In memory, and nobody else's; external ones are not let in.
        Kind("_io.StringIO"),
        Kind("_io.BytesIO", words={"memory": "getbuffer"}),
        # Made by `open`, a substitute, over memory of their own.
        *(
            Kind(f"_io.{name}", make="files", methods="internals", words={"files": _OF_THE_SYSTEM})
            for name in ("_IOBase", "_RawIOBase", "_BufferedIOBase", "_TextIOBase")
        ),
        *(
            Kind(f"_io.{name}", make="files", methods="internals", words={"files": _OF_THE_SYSTEM})
            for name in ("FileIO", "BufferedReader", "BufferedWriter", "BufferedRandom", "TextIOWrapper")
        ),
    )


def _numbers_and_time() -> tuple[Kind, ...]:
    # The local time zone and the locale are state of the process.
    # A zone in Python is asked for its methods from C, so that it must not be a handle.
    local = {
        "pure": "__hash__",
        "internals": "combine replace __replace__",
        "clock": "astimezone fromtimestamp now timestamp today utcnow",
        "state": "__format__ strftime strptime",
    }
    return (
        Kind("_decimal.Decimal", make="state"),
        Kind("_decimal.Context", make="state"),
        Kind(type(decimal.localcontext()), make="unknown"),
        Kind("_datetime.date", words=local),
        Kind("_datetime.datetime", make="internals", words=local),
        Kind("_datetime.time", make="internals", words=local),
        Kind("_datetime.timedelta", words=_VALUE),
        Kind("_datetime.timezone", words=_VALUE),
        Kind("_datetime.tzinfo"),
        Kind("time.struct_time"),
    )


def _references_and_typing() -> tuple[Kind, ...]:
    makes_by_frame = ("TypeVar", "TypeVarTuple", "ParamSpec", "TypeAliasType")
    return (
        Kind("_weakref.ProxyType", make="attributes", methods="attributes"),
        Kind("_weakref.CallableProxyType", make="attributes", methods="attributes"),
        Kind("_typing.Generic", words={"class": "__init_subclass__"}),
        *(Kind(f"_typing.{name}", make="frames", methods="attributes") for name in makes_by_frame),
        Kind("_typing.ParamSpecArgs"),
        Kind("_typing.ParamSpecKwargs"),
    )


KINDS: tuple[Kind, ...] = (
    *_collections(),
    *_functional(),
    *_text_and_bytes(),
    *_numbers_and_time(),
    # A lock made inside is nobody else's; external ones are not let in.
    Kind("_thread.LockType"),
    Kind("_thread.RLock"),
    *_references_and_typing(),
)
