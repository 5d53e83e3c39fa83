# What type checkers and editors know of `compile`: its options, and what it returns.  There is no module of this name.
from collections.abc import Callable
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypedDict, TypeVar, overload

import torch
from typing_extensions import Self

from .. import _core
from ..capture.module_wrapper import OptimizedModule
from ..capture.records.recompiles import Recompile
from ..packages.aot import AOTCompiledFunction
from ..report.model import Report

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R")
_Class = TypeVar("_Class", bound=type)

class CompileOptions(TypedDict, total=False):
    backend: Literal["inductor", "eager", "aot_eager", "cudagraphs"] | str | Callable[..., Callable[..., Any]] | None
    fullgraph: bool
    dynamic: bool | None
    mode: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] | str | None
    options: dict[str, Any] | None
    disable: bool
    name: str | None
    recompile_limit: int | None
    isolate_recompiles: bool
    guard_filter_fn: Callable[..., Any] | None
    guard_fail_fn: Callable[..., Any] | None
    guard_export_fn: Callable[..., Any] | None
    dynamic_shapes: Any
    shapes_spec: Any
    verify: int | bool
    background: bool | Literal["on", "off", "manual"] | None

class Compiled(_core.Compiled, Generic[_P, _R]):
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: Any = None, /) -> Self: ...
    @overload
    def __get__(
        self: Compiled[Concatenate[Any, _Q], _R], instance: object, owner: Any = None, /
    ) -> Compiled[_Q, _R]: ...
    def aot_compile(self, example_inputs: Any) -> AOTCompiledFunction: ...
    def recompiles(self) -> list[Recompile]: ...
    def report(self) -> Report: ...
    def wait(self, seconds: float | None = None) -> bool: ...

class CompileDecorator(Protocol):
    @overload
    def __call__(  # type: ignore[overload-overlap]  # classes are callables, too
        self, model: _Class, /
    ) -> _Class: ...
    @overload
    def __call__(self, model: torch.nn.Module, /) -> OptimizedModule: ...
    @overload
    def __call__(  # type: ignore[overload-cannot-match]  # torch's classes are Any where framelift is checked
        self, model: Callable[_P, _R], /
    ) -> Compiled[_P, _R]: ...
