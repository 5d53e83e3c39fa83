"""The captured function as data: by its name where it is importable, otherwise its code and what it closes over.

Objects that have no name and are no plain values are left out, and given again by whoever loads the package: they are
its *external data*, by key.
"""

from __future__ import annotations

import base64
import importlib
import marshal
import sys
import types
from typing import Any

from .. import _core
from ..cache.code_hash import code_hash
from ..cache.importable_names import find, name_for, space_name
from ..cache.plain_values import leaf_data, leaf_of
from ..cache.refusals import NotMine
from ..cache.source_files import code_named
from ..exc import PackageError
from ..guards.kinds import immutable_leaf
from ..vocabulary.written_forms import NotKept

#: a cell that was not assigned yet
_EMPTY = ["empty", None]


class _Saving:
    def __init__(self, external_data: dict[str, Any]) -> None:
        self.keys = {id(value): key for key, value in external_data.items()}
        self.unnamed: list[Any] = []
        self.nested: list[Any] = []

    def value(self, value: Any) -> Any:
        key = self.keys.get(id(value))
        if key is not None:
            return ["external", key]
        if immutable_leaf(value):
            return ["leaf", leaf_data(value)]
        name = name_for(value)
        if name is not None:
            return ["name", name]
        if type(value) is types.FunctionType and not any(value is one for one in self.nested):
            return ["function", self.code(value)]
        if type(value) is types.MethodType:
            return ["method", [self.value(value.__func__), self.value(value.__self__)]]
        self.unnamed.append(value)
        return _EMPTY

    def code(self, function: types.FunctionType) -> dict[str, Any]:
        self.nested.append(function)
        cells = [self.cell(cell) for cell in function.__closure__ or ()]
        defaults = [self.value(one) for one in function.__defaults__ or ()]
        named = {name: self.value(one) for name, one in (function.__kwdefaults__ or {}).items()}
        self.nested.pop()
        space = space_name(function.__globals__)
        if space is None:
            raise PackageError(f"the globals of {function.__qualname__} are no module's, so it cannot be found again")
        return {
            "module": space,
            "name": function.__name__,
            "qualname": function.__qualname__,
            "code": base64.b64encode(marshal.dumps(function.__code__)).decode(),
            "cells": cells,
            "defaults": defaults if function.__defaults__ is not None else None,
            "kwdefaults": named,
        }

    def cell(self, cell: types.CellType) -> Any:
        try:
            return self.value(cell.cell_contents)
        except ValueError:  # nothing in it
            return _EMPTY


def name_of_function(function: types.FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def function_data(function: types.FunctionType, external_data: dict[str, Any] | None = None) -> Any:
    """A function as data; raises RuntimeError for what has to be named as external data."""
    saving = _Saving(external_data or {})
    name = name_for(function) or _compiled_name(function)
    if name is not None:
        return {"named": name, "code": code_hash(function.__code__)}
    try:
        made = saving.code(function)
    except NotKept as refusal:
        raise PackageError(f"{function.__qualname__} cannot be saved: {refusal}") from None
    if saving.unnamed:
        raise PackageError(
            f"Failed to serialize the following objects: {saving.unnamed}\n"
            "Please mark these as external data by using `external_data={'key': ...}`"
        )
    return made


def _compiled_name(function: types.FunctionType) -> list[str] | None:
    """The name under which a function is found that is compiled where it is defined."""
    name = [function.__module__, function.__qualname__]
    found = find(name)
    return name if type(found) is _core.Compiled and found.function is function else None


class _Loading:
    """Only for packages that are trusted: modules are imported, and code is made."""

    def __init__(self, external_data: dict[str, Any], space: dict[str, Any] | None) -> None:
        self.external_data, self.space = external_data, space

    def value(self, data: Any) -> Any:
        tag, rest = data
        if tag == "external":
            if rest not in self.external_data:
                raise PackageError(
                    f"Missing required external reference to data: {rest}. Please load AOT compiled function with "
                    f"`external_data=<external data dictionary>`{self.external_data}"
                )
            return self.external_data[rest]
        if tag == "leaf":
            return leaf_of(rest)
        if tag == "name":
            return named(rest)
        if tag == "function":
            return self.function(rest)
        if tag == "method":
            return types.MethodType(self.value(rest[0]), self.value(rest[1]))
        raise PackageError(f"the package is damaged: an unknown kind of value: {tag}")

    def cell(self, data: Any) -> types.CellType:
        return types.CellType() if data == _EMPTY else types.CellType(self.value(data))

    def function(self, data: dict[str, Any]) -> types.FunctionType:
        space = self.space if self.space is not None else vars(_module(data["module"]))
        code = marshal.loads(base64.b64decode(data["code"]))
        here = code_named(f"{data['module']}:{data['qualname']}")
        if here is not None and code_hash(here) == code_hash(code):  # with the lines that it has here
            code = here
        cells = tuple([self.cell(one) for one in data["cells"]])
        made = types.FunctionType(code, space, data["name"], None, cells or None)
        made.__qualname__, made.__module__ = data["qualname"], data["module"]
        if data["defaults"] is not None:
            made.__defaults__ = tuple([self.value(one) for one in data["defaults"]])
        made.__kwdefaults__ = {name: self.value(one) for name, one in data["kwdefaults"].items()} or None
        return made


def _module(name: str) -> types.ModuleType:
    found = sys.modules.get(name)
    if found is None:
        try:
            found = importlib.import_module(name)
        except ImportError as error:
            raise PackageError(
                f"the module {name}, which the package's function is in, is not there: {error}"
            ) from None
    return found


def named(name: list[str]) -> Any:
    """The object of a name; its module is imported."""
    if name[0] != "torch.ops":
        _module(name[0])
    found = find(name)
    if found is None:
        raise PackageError(f"{'.'.join(name)}, which the package names, is not there")
    return found


def function_of(
    data: Any, external_data: dict[str, Any] | None = None, f_globals: dict[str, Any] | None = None
) -> types.FunctionType:
    """The function of such data, of a trusted package."""
    try:
        if "named" not in data:
            return _Loading(external_data or {}, f_globals).function(data)
        found = None
        if f_globals is not None and "." not in data["named"][1]:
            found = f_globals.get(data["named"][1])
        if found is None:
            found = named(data["named"])
    except NotMine as error:
        raise PackageError(f"the package is damaged: {error}") from None
    found = found.function if type(found) is _core.Compiled else found
    if type(found) is not types.FunctionType:
        raise PackageError(f"{'.'.join(data['named'])}, which the package names, is no function")
    check_code(found, data)
    return found


def check_code(function: types.FunctionType, data: Any) -> None:
    """Raise where the source of a function was edited since it was packaged."""
    wanted = data["code"] if "named" in data else code_hash(marshal.loads(base64.b64decode(data["code"])))
    if code_hash(function.__code__) != wanted:
        raise PackageError(
            f"the code of {name_of_function(function)} is not what it was when the package was made; make it again"
        )
