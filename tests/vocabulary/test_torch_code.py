"""Which functions and classes are torch's own: where their code is decides, not what a program writes on them."""

from __future__ import annotations

import functools
import json
from typing import Any

import torch

from framelift.vocabulary.torch_code import (
    is_class_of,
    is_python_file,
    is_replacement,
    is_torch_class,
    is_torch_function,
)


def test_a_name_that_was_copied_is_not_enough() -> None:
    @functools.wraps(torch.nn.functional.relu)
    def relu(*args: Any) -> Any:
        return torch.nn.functional.relu(*args)

    assert relu.__module__ == "torch.nn.functional" and not is_torch_function(relu)
    assert is_torch_function(torch.nn.functional.relu)
    assert not is_torch_function(torch.nn.functional.relu, "torch.optim")


def test_classes_are_looked_up_by_their_names() -> None:
    copy = type("Linear", (torch.nn.Module,), {"__module__": "torch.nn.modules.linear"})
    assert is_torch_class(torch.nn.Linear) and not is_torch_class(copy) and not is_torch_class(int)
    assert is_class_of(json.JSONDecoder, "json") and not is_class_of(json.JSONDecoder, "js")


def test_replacements_are_functions_of_the_program() -> None:
    assert is_replacement(lambda: None) and not is_replacement(torch.nn.functional.relu) and not is_replacement(len)
    assert not is_replacement(json.loads) and is_python_file(json.loads.__code__.co_filename)
