"""Models of transformers: one graph, equal to eager, no second capture for the same shapes, equal again for new ones."""

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
    """A configuration value read in forward is a guard.  transformers installs hooks under a lock then, so it may break."""
    model, kwargs = MODELS[name](layers=2)

    def change(number, world) -> None:
        world.fn.config.output_hidden_states = bool(number % 2)

    with torch.no_grad():
        check(model, kwargs=kwargs, calls=3, mutate=change, graphs=None, breaks=None, fullgraph=False)


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
    (graph_module, example_inputs), = seen
    assert isinstance(graph_module, torch.fx.GraphModule)
    graph_module.graph.lint()
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    assert len(placeholders) == len(example_inputs)
    assert {id(p) for p in model.parameters()} & {id(t) for t in example_inputs}
