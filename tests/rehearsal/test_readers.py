"""The function that reads an attribute is chosen by the type of the object, and never runs code of the program."""

from __future__ import annotations

import functools
import types
import weakref
from typing import Any

import pytest
import torch

from framelift.boundary.attributes import classes, function_attributes, instances
from framelift.rehearsal.readers import _read_sealed, reader_of


class Owner:
    def method(self) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} was read")


OBJECTS: dict[str, tuple[Any, Any]] = {
    "class": (Owner, classes.read_class),
    "instance": (Owner(), instances.read_instance),
    "function": (Owner.method, function_attributes.read_function),
    "method": (types.MethodType(Owner.method, Owner()), function_attributes.read_method),
    "cache": (functools.lru_cache(len), function_attributes.read_function),
    "property": (property(), function_attributes.read_function),
    "reference": (weakref.ref(Owner), instances.read_instance),
    "alias": (list[int], instances.read_alias),
    "error": (KeyError(1), instances.read_instance),
    "operation": (torch.ops.aten.add.Tensor, _read_sealed),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_readers(kind: str) -> None:
    obj, reader = OBJECTS[kind]
    assert reader_of(obj) is reader
