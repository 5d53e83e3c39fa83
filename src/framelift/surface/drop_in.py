"""The drop-in: a program that calls torch.compile uses framelift, unmodified.

`install()` points the names of `REDIRECTS` at framelift, `uninstall()` puts back what was there.  What TorchDynamo
offers under its own name is redirected when it is imported, now or later; importing it is left to the program.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from .. import _core, config, exc, export
from ..backends import registrations, registry
from ..capture import frames
from ..capture.module_wrapper import OptimizedModule
from ..exc import IncorrectUsage, NotImplementedHere
from ..packages.aot import load_compiled_function
from . import decorators, dynamic_shapes
from .capturing import THEIRS, captured_for_torch
from .compatibility import REFUSED, warn_environment
from .compiling import compile
from .compiling import reset as reset_all
from .comptime import comptime
from .explain import explain
from .guard_collectives import set_enable_guard_collectives, set_guard_complete_hook
from .stances import set_stance
from .torch_names import callbacks, entries, records
from .torch_names.settings import follow

__all__ = ["export_now", "install", "installed", "is_installed", "optimize", "optimize_assert", "uninstall"]


_DYNAMO = "torch._dynamo"
_SHARED = {
    name: getattr(decorators, name)
    for name in ("allow_in_graph", "assume_constant_result", "disable", "substitute_in_graph")
}
_BACKENDS = {name: getattr(registry, name) for name in ("list_backends", "set_default_backend", "get_default_backend")}
_STEERING = (
    "allow_c_slot",
    "disallow_in_graph",
    "dont_skip_tracing",
    "error_on_graph_break",
    "forbid_in_graph",
    "graph_break",
    "is_dynamo_disable_recursive",
    "nonstrict_trace",
    "run",
    "skip",
    "skip_frame",
    "step_unsupported",
)


def reset() -> None:
    """torch._dynamo.reset: as `framelift.reset`, and what TorchDynamo's own records hold of captures is forgotten, too.

    >>> import framelift
    >>> framelift.drop_in.reset()
    """
    reset_all()
    records.forget()


def optimize(
    backend: Any = "inductor",
    *,
    nopython: bool = False,
    error_on_graph_break: bool | None = None,
    package: Any = None,
    **options: Any,
) -> Any:
    """torch._dynamo.optimize: a decorator.

    >>> import torch, framelift
    >>> framelift.drop_in.optimize("eager")(lambda x: x + 1)(torch.ones(1))
    tensor([2.])
    """
    if package is not None:
        raise NotImplementedHere("framelift has packages of its own: see framelift.save_package")
    return _Optimize(compile(backend=backend, fullgraph=nopython, **options), error_on_graph_break)


def optimize_assert(backend: Any = "inductor", **options: Any) -> Any:
    """torch._dynamo.optimize_assert: as `optimize(nopython=True)`.

    >>> import torch, framelift
    >>> framelift.drop_in.optimize_assert("eager")(lambda x: x + 1)(torch.ones(1))
    tensor([2.])
    """
    return optimize(backend, nopython=True, **options)


def export_now(function: Any, *args: Any, **options: Any) -> Any:
    """torch._dynamo.export, which takes the call's arguments at once, too.

    >>> import torch, framelift
    >>> framelift.drop_in.export_now(lambda x: x + 1, torch.ones(1)).graph_module(torch.ones(1))
    tensor([2.])
    """
    if not args:
        return export.legacy(function, **options)
    own = inspect.signature(export.export_graph).parameters
    call = export.legacy(function, **{name: value for name, value in options.items() if name in own})
    return call(*args, **{name: value for name, value in options.items() if name not in own})


class _Optimize:
    """The result of torch._dynamo.optimize: for decorating, and for `with` only where the user has said so."""

    def __init__(self, compiling: Callable[[Any], Any], error_on_graph_break: bool | None) -> None:
        self.compiling, self.error_on_graph_break = compiling, error_on_graph_break
        self.blocks: list[_core.Capturing] = []

    def __call__(self, fn: Any) -> Any:
        made = self.compiling(fn)
        if self.error_on_graph_break is None:
            return made
        error = self.error_on_graph_break

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with decorators.error_on_graph_break(error):
                return made(*args, **kwargs)

        return call

    def __enter__(self) -> None:
        if config.raise_on_ctx_manager_usage:
            raise IncorrectUsage(
                "torch._dynamo.optimize(...) is used with a context manager; use it as a decorator, or torch.compile, "
                "or set torch._dynamo.config.raise_on_ctx_manager_usage = False"
            )
        compiled = self.compiling(_nothing)
        self.blocks.append(_core.Capturing(compiled))
        self.blocks[-1].__enter__()

    def __exit__(self, *exc: Any) -> None:
        self.blocks.pop().__exit__(*exc)


def _nothing() -> None:
    """Do nothing: a block is compiled for this, so that frames which begin within it are captured."""


def _refused(name: str, note: str) -> Callable[..., Any]:
    """Stands for a function of torch's that has no meaning here."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedHere(f"{name} is not supported by framelift: {note}")

    return refuse


#: module -> name -> what stands there while framelift is installed
REDIRECTS: dict[str, dict[str, Any]] = {
    "torch": {"compile": compile},
    "torch.compiler": {
        "compile": compile,
        "load_compiled_function": load_compiled_function,
        "nonstrict_trace": decorators.nonstrict_trace,
        "reset": reset,
        "set_enable_guard_collectives": set_enable_guard_collectives,
        "set_stance": set_stance,
        **_SHARED,
        **_BACKENDS,
    },
    "torch.export": {"export": export.export},
    _DYNAMO: {
        "export": export_now,
        "optimize": optimize,
        "optimize_assert": optimize_assert,
        "reset": reset,
        "explain": explain,
        "OptimizedModule": OptimizedModule,
        "set_stance": set_stance,
        "on_compile_start": callbacks.on_compile_start,
        "on_compile_end": callbacks.on_compile_end,
        "reset_code": entries.reset_code,
        "reset_code_caches": entries.reset_code_caches,
        "list_backends": registry.list_backends,
        "lookup_backend": registry.lookup_backend,
        "register_backend": registrations.register_backend,
        **{
            name: getattr(dynamic_shapes, name)
            for name in ("mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked", "maybe_mark_dynamic")
        },
        **_SHARED,
        **{name: getattr(decorators, name) for name in _STEERING},
    },
    f"{_DYNAMO}.eval_frame": {
        "OptimizedModule": OptimizedModule,
        "_debug_get_cache_entry_list": entries.cache_entries,
        "_debug_get_precompile_entries": entries.precompile_entries,
        "innermost_fn": decorators.innermost,
        "remove_from_cache": entries.remove_from_cache,
        "reset_code": entries.reset_code,
        "set_guard_complete_hook": set_guard_complete_hook,
        "set_guard_error_hook": entries.set_guard_error_hook,
        "skip_code": frames.skip_code,
    },
    f"{_DYNAMO}.convert_frame": {
        "compiled_code_has_side_effects": records.has_side_effects,
        "fullgraph_capture": captured_for_torch,
        "get_compiled_code_side_effects": records.side_effects,
    },
    f"{_DYNAMO}.callback": {"on_compile_start": callbacks.on_compile_start, "on_compile_end": callbacks.on_compile_end},
    f"{_DYNAMO}.trace_rules": {"add": entries.skip_module},
    f"{_DYNAMO}.comptime": {"comptime": comptime},
}

#: where the decorators are defined; some are named only there
REDIRECTS[f"{_DYNAMO}.decorators"] = {
    name: value
    for name, value in REDIRECTS[_DYNAMO].items()
    if hasattr(decorators, name) or hasattr(dynamic_shapes, name) or name == "set_stance"
}

_undo: list[Callable[[], Any]] = []


def _refuse_unsupported() -> None:
    """Functions that the table of compatibility refuses raise an error that says why."""
    for name, why in REFUSED.items():
        module, _, attribute = name.rpartition(".")
        REDIRECTS[module].setdefault(attribute, _refused(name, why))


def is_installed() -> bool:
    """Return whether torch.compile means framelift now.

    >>> import framelift
    >>> framelift.is_installed()
    False
    """
    return bool(_undo)


def install() -> None:
    """From now on torch.compile, torch.compiler.*, torch.export.export and module.compile() use framelift, in the whole
    process.

    >>> import torch, framelift
    >>> framelift.install()
    >>> type(torch.compile(lambda x: x + 1, backend="eager")).__module__
    'framelift._core'
    >>> framelift.uninstall()
    """
    if _undo:
        return
    _undo.append(lambda: None)
    warn_environment()
    _refuse_unsupported()
    _redirect("torch", "torch.compiler", "torch.export")
    if _DYNAMO in sys.modules:
        _redirect_dynamo()
    else:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
        _undo.append(lambda: sys.meta_path.remove(finder) if finder in sys.meta_path else None)


def uninstall() -> None:
    """Put back what `install` replaced.  What was compiled meanwhile stays as it is.

    >>> import framelift
    >>> framelift.uninstall()
    """
    while _undo:
        _undo.pop()()


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """`install()` for a block.

    >>> import torch, framelift
    >>> with framelift.installed():
    ...     f = torch.compile(lambda x: x + 1, backend="eager")
    >>> f(torch.ones(1)), len(f.entries)
    (tensor([2.]), 1)
    """
    already = is_installed()
    install()
    try:
        yield
    finally:
        if not already:
            uninstall()


def _redirect(*names: str) -> None:
    """Replace the names of these modules, and every other module's name that is bound to the same object."""
    new: dict[int, tuple[Any, Any]] = {}
    for name in names:
        for attribute, value in REDIRECTS[name].items() if name in sys.modules else ():
            old = vars(sys.modules[name]).get(attribute)
            if old is not None:
                new[id(old)] = old, value
    for name, module in list(sys.modules.items()):
        if name in REDIRECTS or not name.startswith(_OWN_NAMES):
            _rebind(module, new)


#: modules that keep what they have: TorchDynamo's inside, and framelift itself
_OWN_NAMES = (_DYNAMO + ".", "framelift")


def _rebind(module: Any, new: dict[int, tuple[Any, Any]]) -> None:
    bound = getattr(module, "__dict__", None)
    if type(bound) is not dict:
        return
    for attribute, value in list(bound.items()):
        found = new.get(id(value))
        if found is not None and found[0] is value:
            bound[attribute] = found[1]
            _undo.append(functools.partial(bound.__setitem__, attribute, value))


def _redirect_dynamo() -> None:
    """TorchDynamo was imported: its public names, and what a program sets in its configuration."""
    theirs = getattr(sys.modules.get(f"{_DYNAMO}.convert_frame"), "fullgraph_capture", None)
    if theirs is not None and theirs is not captured_for_torch:
        THEIRS[:] = [theirs]
    _redirect(*(name for name in REDIRECTS if name.startswith(_DYNAMO)))
    settings = sys.modules.get(f"{_DYNAMO}.config")
    if settings is not None:
        _undo.append(follow(settings))
    _undo.append(records.follow())
    errors = sys.modules.get(f"{_DYNAMO}.exc")
    if errors is not None:
        _derive_exceptions(errors)


def _derive_exceptions(errors: types.ModuleType) -> None:
    """framelift's exceptions are TorchDynamo's of the same names, too: who catches these catches ours.

    The names themselves stay TorchDynamo's: torch's own tracer raises, catches and looks into its own classes.
    """
    for name in exc.__all__:
        ours, theirs = getattr(exc, name), vars(errors).get(name)
        if isinstance(theirs, type) and not issubclass(ours, theirs):
            before = ours.__bases__
            ours.__bases__ = (theirs,) if ours is exc.FrameliftError else (*before, theirs)
            _undo.append(functools.partial(setattr, ours, "__bases__", before))
    kinds = getattr(errors, "UserErrorType", None)
    if kinds is not None:
        _undo.append(functools.partial(setattr, exc.UserError, "error_type", exc.UserError.error_type))
        exc.UserError.error_type = kinds.ANTI_PATTERN


class _Finder(MetaPathFinder):
    """Waits for TorchDynamo's import, to redirect its names right after."""

    def __init__(self) -> None:
        self.searching = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != _DYNAMO or self.searching:
            return None
        self.searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searching = False
        loader = spec.loader if spec is not None else None
        if loader is not None:
            execute = loader.exec_module

            def then_redirect(module: types.ModuleType) -> None:
                execute(module)
                if is_installed():
                    _redirect_dynamo()

            loader.exec_module = then_redirect  # type: ignore[method-assign]  # replaced on purpose
        return spec
