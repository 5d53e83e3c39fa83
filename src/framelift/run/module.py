"""The module wrapper: what `compile(nn.Module)` returns.  Attribute access goes to the original module."""

from __future__ import annotations

import operator
from typing import Any

import torch

__all__ = ["OptimizedModule"]

_OWN = frozenset({"_orig_mod", "_compiled", "training", "__dict__"})


class OptimizedModule(torch.nn.Module):
    """Wraps a module; calling it runs the captured graph.

    Parameters, buffers, submodules and every other attribute are those of the original module.
    """

    _compiled: Any
    _orig_mod: torch.nn.Module

    def __init__(self, module: torch.nn.Module, compiled: Any) -> None:
        super().__init__()
        self.__dict__["_compiled"] = compiled
        self._modules["_orig_mod"] = module

    # A property over a C getter: a call reaches the native callable without a Python frame of ours.
    __call__ = property(operator.attrgetter("_compiled"))  # type: ignore[assignment]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        try:
            return getattr(self._orig_mod, name)
        except AttributeError:
            if name == "report":     # the module's own attribute of this name comes first
                return self._compiled.report
            raise

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or "_modules" not in self.__dict__ or "_orig_mod" not in self._modules:
            super().__setattr__(name, value)
            if name == "training" and "_orig_mod" in self.__dict__.get("_modules", {}):
                self._orig_mod.training = value
            return
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(dir(self._orig_mod)))

    def train(self, mode: bool = True) -> OptimizedModule:
        self._orig_mod.train(mode)
        self.__dict__["training"] = mode
        return self
