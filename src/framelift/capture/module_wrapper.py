"""The module wrapper: what `compile(nn.Module)` returns.  Attribute access goes to the original module."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from .._core import call_through, is_a
from ..exc import WrongType

if TYPE_CHECKING:
    from ..packages.aot import AOTCompiledFunction
    from ..report.model import Report
    from .records.recompiles import Recompile

_OWN = frozenset(
    {
        "_orig_mod",
        "_compiled",
        "_call",
        "dynamo_ctx",
        "__dict__",
        "_torchdynamo_orig_callable",
        "_torchdynamo_wrapper_id",
    }
)
#: registering one of these means that a call has to go through nn.Module's own
_HOOKS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_backward_hook",
)


#: of any type to a type checker: a compiled module may stand where the original's class is asked for
_Module: Any = torch.nn.Module


class OptimizedModule(_Module):
    """Wraps a module; calling it runs the captured graph.

    Parameters, buffers, submodules and every other attribute are those of the original module, which is
    `_orig_mod`.  Hooks on the wrapper run outside the graph.

    >>> import torch, framelift
    >>> module = torch.nn.Linear(2, 1)
    >>> compiled = framelift.compile(module, backend="eager")
    >>> is_a(compiled, framelift.OptimizedModule), compiled.weight is module.weight, compiled._orig_mod is module
    (True, True, True)
    """

    _call: Any
    _compiled: Any
    _orig_mod: torch.nn.Module

    if TYPE_CHECKING:  # of the compiled callable, where the module has no attribute of that name

        def report(self) -> Report: ...
        def recompiles(self) -> list[Recompile]: ...
        def aot_compile(self, example_inputs: Any) -> AOTCompiledFunction: ...
        def wait(self, seconds: float | None = None) -> bool: ...

    def __init__(
        self, module: torch.nn.Module, compiled: Any, again: Callable[[torch.nn.Module], Any] | None = None
    ) -> None:
        super().__init__()
        own = self.__dict__
        own["_compiled"] = own["_call"] = compiled
        # compiles another callable in the same way: for copies, and for libraries that compile more methods
        own["dynamo_ctx"] = again
        self._modules["_orig_mod"] = module
        if is_a(module, LazyModuleMixin):
            own["_call"] = types.MethodType(_first_call, self)

    # What `call_through` below does natively.  A property over a C getter: no Python frame of ours.
    __call__ = property(operator.attrgetter("_call"))

    @property
    def forward(self) -> Any:
        """The compiled callable of the module; with hooks of the wrapper, nn.Module calls it."""
        return self.__dict__.get("_forward", self._compiled)

    @forward.setter
    def forward(self, value: Any) -> None:
        self.__dict__["_forward"] = value

    @property
    def training(self) -> bool:
        return self._orig_mod.training if "_orig_mod" in self._modules else True

    @training.setter
    def training(self, mode: bool) -> None:
        if "_orig_mod" in self.__dict__.get("_modules", ()):  # nn.Module's own __init__ sets it first
            self._orig_mod.training = mode

    def __str__(self) -> str:
        """The modules, as `repr` shows them, and what was captured so far in one line."""
        return f"{self!r}\n{str(self._compiled).partition(chr(10))[0]}"

    def _repr_html_(self) -> str:
        """Return the report, which a notebook shows."""
        shown: str = self._compiled._repr_html_()
        return shown

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        try:
            return getattr(self._orig_mod, name)
        except AttributeError:
            # the module's own attribute of this name comes first
            if name in ("aot_compile", "recompiles", "report", "wait"):
                return getattr(self._compiled, name)
            raise

    def __setattr__(self, name: str, value: Any) -> None:
        if (
            name in _OWN
            or "_modules" not in self.__dict__
            or "_orig_mod" not in self._modules
            or hasattr(type(self), name)
        ):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __len__(self) -> int:
        if is_a(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")  # Python's

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __reduce__(self) -> Any:
        if self.dynamo_ctx is None:
            raise WrongType(
                f"this wrapper of {type(self._orig_mod).__name__} cannot be copied; copy the module it wraps"
            )
        return _wrap, (self.dynamo_ctx, self._orig_mod)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def train(self, mode: bool = True) -> OptimizedModule:
        self._orig_mod.train(mode)
        return self


def _wrap(again: Callable[[torch.nn.Module], Any], module: torch.nn.Module) -> Any:
    return again(module)


def _first_call(self: OptimizedModule, *args: Any, **kwargs: Any) -> Any:
    """A lazy module gets its parameters from the first arguments, before anything is captured."""
    module = self._orig_mod
    if is_a(module, LazyModuleMixin) and module.has_uninitialized_params():
        module._infer_parameters(module, args, kwargs)
    self.__dict__["_call"] = self._compiled
    return self._compiled(*args, **kwargs)


def _with_hooks(name: str) -> Any:
    register = getattr(torch.nn.Module, name)

    def hooked(self: OptimizedModule, *args: Any, **kwargs: Any) -> Any:
        self.__dict__["_call"] = types.MethodType(torch.nn.Module.__call__, self)
        return register(self, *args, **kwargs)

    hooked.__name__ = name
    hooked.__doc__ = register.__doc__
    return hooked


for _name in _HOOKS:
    setattr(OptimizedModule, _name, _with_hooks(_name))

call_through(OptimizedModule, "_call")
