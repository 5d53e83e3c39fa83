"""Script objects (TorchBind): what torch says of one, and the fake that stands for it while methods are called.

A class of C++ is known by its fake class (`torch._library.register_fake_class`), which is made of what
`__obj_flatten__` gives and has the methods that may be captured.
"""

from __future__ import annotations

from typing import Any

import torch

from ...torch_ports.modes import DisableTorchFunction
from ...torch_ports.operators import fake_class_registry as registry
from ...torch_ports.tensors import is_alias_of
from ...vocabulary.outside_exceptions import raise_outside


class ScriptFacts:
    """The metadata of a script object: its class, and the fake, which changes as captured code calls methods."""

    __slots__ = ("fake", "name")
    dtype = None
    requires_grad = False
    is_leaf = True

    def __init__(self, name: str, fake: registry.FakeScriptObject) -> None:
        self.name = name
        self.fake = fake


def class_name(obj: torch.ScriptObject) -> str:
    """The name of its class of C++."""
    return str(obj._type().qualified_name())


def fake_class(obj: torch.ScriptObject) -> Any:
    """The fake class that somebody registered for an object's class; None where methods have no fakes."""
    try:
        return registry._find_fake_class_for_script_object(obj) if not registry.tracing_with_real(obj) else None
    except Exception as error:
        raise_outside(error)
        return None


def contents(obj: torch.ScriptObject) -> Any:
    """Return the contents of an object, as its class declares them: pairs of a name and a value."""
    with DisableTorchFunction():
        return obj.__obj_flatten__()


def is_one_object(one: torch.ScriptObject, other: torch.ScriptObject) -> bool:
    """Return whether two objects of Python stand for one of C++."""
    return bool(is_alias_of(one, other))
