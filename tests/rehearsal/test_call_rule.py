"""The kind that the call rule gives a callable."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from framelift.rehearsal import call_rule
from framelift.rehearsal.call_rule import classify, describe


class Meta(type):
    def __hash__(cls) -> int:
        return 1

    def __eq__(cls, other: object) -> bool:
        return True


class Compared(metaclass=Meta):
    pass


def test_a_pure_function_is_called_as_it_is() -> None:
    assert classify(math.sqrt)[0] == call_rule.PURE_


def test_what_has_a_substitute_is_handled() -> None:
    kind, handler = classify(id)
    assert kind == call_rule.HANDLER and callable(handler)


def test_classes_that_compare_by_code_of_their_metaclass_are_denied() -> None:
    kind, why = classify(Compared)
    assert kind == call_rule.DENIED and "its metaclass compares or hashes classes by code of its own" in why


def test_a_method_wrapper_is_unwrapped() -> None:
    assert classify((1).__add__) == (call_rule.UNWRAP, True)


@pytest.mark.parametrize(
    ("callable_", "name"),
    [
        (len, "len"),
        (math.sqrt, "math.sqrt"),
        (int, "int"),
        (torch.nn.Linear, "torch.nn.modules.linear.Linear"),
        (Compared(), f"{__name__}.Compared"),
    ],
)
def test_names_in_messages(callable_: Any, name: str) -> None:
    assert describe(callable_) == name
