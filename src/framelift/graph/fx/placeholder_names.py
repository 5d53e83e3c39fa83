"""Placeholders called after the place their value comes from, as backends of torch.compile know them: `L_x_`,
`L_self_modules_linear_parameters_weight_`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ... import _core
from ..._core import id, is_a
from ...vocabulary.origins import Origin
from ...vocabulary.plain_types import GIVEN
from .named_places import NamedPlaces

_MARK = "_dynamo_static_input_type"  # left on a tensor by mark_static_address


def source_name(origin: Origin, places: NamedPlaces | None = None) -> str:
    """The place in the letters of an identifier: arguments and variables of closures begin with L, all else with G.

    >>> from framelift.vocabulary.origins import arg
    >>> source_name(arg(0, "self").to("dict").to("item", "_modules").to("item", "fc"))
    'L_self_modules_fc_'
    """
    # an attribute, or an item
    end = "" if origin.step == "item" and origin.base is not None and origin.base.step == "dict" else "_"
    return (places or NamedPlaces()).parts(origin).letters + end


def name_placeholders(
    graph_module: torch.fx.GraphModule, arguments: Sequence[Any], memo: Mapping[int, Any], places: NamedPlaces
) -> None:
    """Rename the placeholders of tensors and script objects, which stand in the order of `arguments`, and note whose
    address stays: CUDA graphs need not copy these.

    `memo` has a record with the origin of each object that was met, by its id.
    """
    stay = _tensors_of_modules(memo)
    for node, tensor in zip(graph_module.graph.find_nodes(op="placeholder"), arguments):
        if not is_a(tensor, GIVEN) or id(tensor) not in memo:  # drawn, not found
            continue
        if is_a(tensor, torch.Tensor):
            marked = _core.own_dict(tensor).get(_MARK) or ("unguarded" if id(tensor) in stay else None)
            node.meta["tensor_dict"] = {_MARK: marked} if marked else {}
        _call(node, source_name(memo[id(tensor)].origin, places))


def _call(node: torch.fx.Node, name: str) -> None:
    """Name a placeholder, in lower case, below Node._rename and Node.__setattr__: nobody watches this graph yet."""
    wanted, names = name.lower(), node.graph._graph_namespace
    if wanted.endswith("_") and wanted not in names._used_names:  # no number at its end: it stays as it is
        names._used_names.add(wanted)
        names._base_count[wanted] = 0
        names._obj_to_name[node] = wanted
        object.__setattr__(node, "name", wanted)
    else:
        node._rename(wanted)
    object.__setattr__(node, "target", name if node.name == wanted else node.name)


def _tensors_of_modules(memo: Mapping[int, Any]) -> set[int]:
    """The ids of what the modules that were met hold: parameters, buffers, attributes."""
    found: set[int] = set()
    for record in memo.values():
        if is_a(record.original, torch.nn.Module):
            table = _core.own_dict(record.original)
            for held in (table, table.get("_parameters", ()), table.get("_buffers", ())):
                found.update(map(id, held.values() if is_a(held, dict) else ()))
    return found


def identifier(name: str) -> str:
    """A text as a name of Python's; none where there are no letters in it.

    >>> identifier("self.layers[0]"), identifier("(0)")
    ('self_layers_0', 'value_0')
    """
    letters = "".join(c if c.isalnum() and c.isascii() else "_" for c in name).strip("_")
    return f"value_{letters}" if letters[:1].isdigit() else letters
