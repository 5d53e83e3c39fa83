"""Weights in packages: a state dict as safetensors, tensors that share memory once."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch

from .._core import is_a
from ..exc import PackageError


def _safetensors() -> Any:
    try:
        return importlib.import_module("safetensors.torch")
    except ImportError:
        raise PackageError("weights in packages need safetensors: pip install safetensors") from None


def weights_data(state: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """A state dict as bytes, and names of tensors that are others under one more name."""
    firsts: dict[Any, str] = {}
    tensors: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    for name, tensor in state.items():
        if not is_a(tensor, torch.Tensor):
            raise PackageError(f"{name} in the state dict is no tensor, and cannot be written as safetensors")
        tensor = tensor.detach()
        place = tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()
        first = firsts.setdefault(place, name) if tensor.numel() else name
        if first == name:
            tensors[name] = tensor.contiguous().clone() if _shares(tensor) else tensor.contiguous()
        else:
            aliases[name] = first
    return _safetensors().save(tensors), aliases


def _shares(tensor: torch.Tensor) -> bool:
    """Return whether its memory has more than it."""
    return tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size()


def load_weights(module: torch.nn.Module, content: bytes, aliases: Mapping[str, str]) -> None:
    """Load weights into a module; one on the meta device gets them as its own."""
    try:
        found = _safetensors().load(content)
    except PackageError:
        raise
    except Exception as error:  # noqa: BLE001  safetensors' own errors
        raise PackageError(f"the weights of the package cannot be read: {error}") from None
    found.update({name: found[first] for name, first in aliases.items()})
    state = module.state_dict()
    without = any(one.device.type == "meta" for one in state.values() if is_a(one, torch.Tensor))
    try:
        module.load_state_dict(found, assign=without)
    except RuntimeError as error:
        raise PackageError(f"the weights of the package are not this module's: {error}") from None
