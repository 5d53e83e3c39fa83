"""Parameters and buffers as attributes of the graph, where the program asks Inductor to freeze them
(`torch._inductor.config.freezing`, without grad mode), or for tensors that are no arguments to be there
(`config.install_free_tensors`).

A compiler may then calculate with what they hold.  That they are the same tensors is guarded; that nobody writes to
them is the program's promise.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from .. import config
from .._core import is_a
from ..boundary.dynamism import is_argument
from ..graph.metadata.facts import is_parameter
from ..recording.recorder import Finished
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.loaded import inductor_config
from ..vocabulary.plain_types import GIVEN

if TYPE_CHECKING:
    from ..rehearsal.session import Rehearsal


def frozen(session: Rehearsal, finished: Finished) -> Finished:
    """The finished rehearsal with its parameters and buffers inside the graph module, if they are to be there."""
    options = inductor_config.get()
    asked = config.prepare_freezing or options is not None and options.freezing
    if not (config.install_free_tensors or asked and not is_grad_enabled()) or finished.mutated:
        return finished
    module = finished.graph_module
    arguments = finished.inputs if finished.arguments is None else finished.arguments
    rest: list[Any] = []
    for node, given in zip(module.graph.find_nodes(op="placeholder"), arguments):
        record = session.record_of_original(given) if is_a(given, torch.Tensor) else None
        if record is None or not (_is_state(given, record.origin) or config.install_free_tensors and _is_free(record)):
            rest.append(given)
            continue
        session.guard(record.origin, "IS", given)
        if is_parameter(given):
            module.register_parameter(node.name, given)
        else:
            module.register_buffer(node.name, given)
        with module.graph.inserting_before(node):
            held = module.graph.get_attr(node.name)
        held.meta.update(node.meta)
        node.replace_all_uses_with(held)
        module.graph.erase_node(node)
    if len(rest) == len(arguments):
        return finished
    module.graph.lint()
    module.recompile()
    tensors = [given for given in rest if is_a(given, GIVEN)]
    return dataclasses.replace(
        finished, inputs=tensors, shared=(), arguments=None if finished.arguments is None else rest
    )


def _is_free(record: Any) -> bool:
    """Return whether a tensor is reached from no argument."""
    return not is_argument(record.origin)


def _is_state(tensor: torch.Tensor, origin: Any) -> bool:
    table = origin.base
    return (
        is_parameter(tensor)
        or origin.step == "item"
        and table is not None
        and table.step == "item"
        and table.key == "_buffers"
    )
