"""Placeholders called after the place their value comes from, as backends of torch.compile know them: `L_x_`, `L_self_modules_linear_parameters_weight_`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..origin import Origin

__all__ = ["name_placeholders", "source_name"]

_MARK = "_dynamo_static_input_type"   # left on a tensor by mark_static_address


def source_name(origin: Origin) -> str:
    """The place in the letters of an identifier: arguments begin with L, all else with G.

    >>> from framelift.origin import arg
    >>> source_name(arg(0, "self").to("dict").to("item", "_modules").to("item", "fc"))
    'L_self_modules_fc_'
    """
    parts: list[str] = []
    while origin.base is not None:
        if origin.key is not None:
            parts.append(str(origin.key))
        origin = origin.base
    if origin.step == "arg":
        parts += [str(origin.key[1]), "L"]
    else:
        parts.append("G")
    letters = "".join(c if c.isascii() and c.isalnum() else "_" for c in "_".join(reversed(parts)))
    return "_".join(part for part in letters.split("_") if part) + "_"


def name_placeholders(graph_module: torch.fx.GraphModule, arguments: Sequence[Any], memo: Mapping[int, Any]) -> None:
    """Rename the placeholders of tensors, which stand in the order of `arguments`, and note what a mark says of each.

    `memo` has a record with the origin of each tensor, by its id.
    """
    for node, tensor in zip(graph_module.graph.find_nodes(op="placeholder"), arguments):
        if not isinstance(tensor, torch.Tensor):
            continue
        marked = tensor.__dict__.get(_MARK)
        node.meta["tensor_dict"] = {_MARK: marked} if marked else {}
        name = source_name(memo[id(tensor)].origin)
        node._rename(name.lower())
        node.target = name if node.name == name.lower() else node.name
