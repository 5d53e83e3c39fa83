"""Models of transformers.

One graph, equal to eager, no second capture for the same shapes, equal again for new ones.
"""

from __future__ import annotations

import pytest
import torch

import framelift
from models import MODELS, inputs
from support import check


@pytest.mark.parametrize("name", MODELS)
def test_one_graph_equal_and_reused(name: str) -> None:
    model, kwargs = MODELS[name]()
    with torch.no_grad():
        check(model, kwargs=kwargs, calls=3, graphs=1, breaks=0, captures=1)


@pytest.mark.parametrize("name", MODELS)
def test_new_shapes_are_captured_anew(name: str) -> None:
    model, kwargs = MODELS[name]()
    shapes = [(1, 16), (2, 16), (1, 9), (1, 16)]

    def reshape(number, world) -> None:
        world.kwargs.update(inputs(*shapes[number]))

    with torch.no_grad():
        check(model, kwargs=kwargs, calls=4, mutate=reshape, graphs=None, breaks=0, exact=False)


@pytest.mark.parametrize("name", MODELS)
def test_changed_weights_are_used(name: str) -> None:
    model, kwargs = MODELS[name](layers=2)

    def change(number, world) -> None:
        with torch.no_grad():
            next(world.fn.parameters()).mul_(1.5)

    with torch.no_grad():
        check(model, kwargs=kwargs, calls=3, mutate=change, graphs=1, captures=1)


@pytest.mark.parametrize("name", MODELS)
def test_changed_attribute_is_seen(name: str) -> None:
    """A number deep inside the model that forward reads: the normalisation's epsilon.

    Where it is a tensor's operand it becomes an input; where it is an option of an operation, each value is a capture.
    """
    model, kwargs = MODELS[name](layers=2)

    def change(number, world) -> None:
        norm = [m for m in world.fn.modules() if hasattr(m, "eps") or hasattr(m, "variance_epsilon")][-1]
        setattr(norm, "eps" if hasattr(norm, "eps") else "variance_epsilon", 0.5 * number)

    with torch.no_grad():
        check(model, kwargs=kwargs, calls=3, mutate=change, graphs=None, captures=2 if name == "llama" else 3)


@pytest.mark.parametrize("name", MODELS)
def test_training_mode_with_dropout(name: str) -> None:
    model, kwargs = MODELS[name](layers=2)
    model.train()
    check(model, kwargs=kwargs, calls=2)


@pytest.mark.parametrize("name", MODELS)
def test_graph_is_an_fx_graph_with_parameters_as_inputs(name: str) -> None:
    model, kwargs = MODELS[name](layers=2)
    seen = []

    def backend(graph_module, example_inputs):
        seen.append((graph_module, example_inputs))
        return graph_module.forward

    with torch.no_grad():
        framelift.compile(model, backend=backend)(**kwargs)
    ((graph_module, example_inputs),) = seen
    assert isinstance(graph_module, torch.fx.GraphModule)
    graph_module.graph.lint()
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    assert len(placeholders) == len(example_inputs)
    assert {id(p) for p in model.parameters()} & {id(t) for t in example_inputs}
