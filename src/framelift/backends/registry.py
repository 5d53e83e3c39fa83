"""Finding a backend by name, and running it on one graph.  registrations.py says what a backend is."""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import importlib.metadata
import inspect
import os
import shlex
import shutil
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.graph_module import GraphModule

from .. import _core, config
from .._core import insist
from ..capture.around.specialized_floats import gave_up_on_floats
from ..capture.compile_entry import Backend as UsedBackend
from ..capture.compile_entry import code_now, guards_now
from ..capture.records.guard_hooks import GUARD_TYPES
from ..exc import BackendCompilerFailed, IncorrectUsage, InternalError, InvalidBackend, SkipFrame
from ..graph.fx.examples import fake_of, forget_tensors
from ..graph.fx.gradient_buckets import compile_in_parts
from ..graph.fx.node_metadata import fill_examples
from ..graph.metadata.device_guard import keep_device_guard
from ..graph.symbols.symbol_sources import source_called
from ..recording.recorder_parts import Habits
from ..torch_ports import compilers
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.fakes import FakeTensor, FakeTensorMode, Guard, GuardsContext, TracingContext, tracing
from ..torch_ports.loaded import dynamo_config, dynamo_exc, dynamo_registry
from ..torch_ports.operators import HigherOrderOperator
from ..vocabulary.log import topic
from ..vocabulary.outside_exceptions import raise_outside
from ..vocabulary.torch_code import is_torch_class, is_torch_function
from . import builtin, cudagraphs, debugging, written_inputs  # noqa: F401  (the others register their own)
from .correctness import checked, reference
from .debugging import backend_for_now, inductor_options_now
from .elsewhere import Job, NotPacked, submit
from .plain_graphs import watching_first_run
from .registrations import BACKENDS, TAGS, Backend, register
from .rewrites import BUCKETS, FLOATS, may_rewrite, noting_rewrites, rewrote, without_rewrites
from .subgraph_calls import arrange_subgraphs
from .surroundings import ProcessState

_GROUP = "torch_dynamo_backends"
_default: list[str | Backend] = ["inductor"]


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names of all backends without one of these tags, those of installed packages included.

    >>> import framelift
    >>> "inductor" in framelift.list_backends(), "eager" in framelift.list_backends()
    (True, False)
    >>> "eager" in framelift.list_backends(None)
    True
    """
    unwanted = set(exclude_tags or ())
    found = {name for name in (*BACKENDS, *_of_torch()) if not unwanted & set(TAGS.get(name) or _tags_in_torch(name))}
    return sorted(found | set(_entry_points()))


def set_default_backend(backend: str | Backend | None) -> None:
    """The backend of a `compile` that names none; None: inductor.

    >>> import framelift
    >>> framelift.set_default_backend("eager")
    >>> framelift.get_default_backend()
    'eager'
    >>> framelift.set_default_backend(None)
    """
    if backend is not None:
        lookup(backend)
    _default[0] = backend if backend is not None else "inductor"


def get_default_backend() -> str | Backend:
    """The backend of a `compile` that names none.

    >>> import framelift
    >>> framelift.get_default_backend()
    'inductor'
    """
    return _default[0]


def _entry_points() -> dict[str, Any]:
    """Return the backends of installed packages, from torch.compile's group of entry points."""
    points = importlib.metadata.entry_points(group=_GROUP)
    return {name: points[name] for name in points.names}


#: backends that torch registers when one of these modules of torch._dynamo.backends is imported
_IN_TORCH = {
    "tvm": "tvm",
    "openxla": "torchxla",
    "invoke_subgraph": "debugging",
    "aot_eager_decomp_partition_crossref": "debugging",
    "aot_eager_decomp_partition_with_mode": "debugging",
    "relu_compile_error_TESTING_ONLY": "debugging",
    "relu_runtime_error_TESTING_ONLY": "debugging",
    "relu_accuracy_error_TESTING_ONLY": "debugging",
    "non_leaf_compile_error_TESTING_ONLY": "debugging",
}


def _of_torch() -> dict[str, Any]:
    """Backends that are registered with TorchDynamo, by a program or by torch itself, without framelift's own."""
    table = getattr(dynamo_registry.get(), "_COMPILER_FNS", None) or {}
    return {
        name: fn
        for name, fn in table.items()
        if name not in BACKENDS
        or not (is_torch_function(fn, "torch._dynamo") or is_torch_class(type(fn), "torch._dynamo"))
    }


def _tags_in_torch(name: str) -> tuple[str, ...]:
    return tuple(getattr(_of_torch().get(name), "_tags", ()))


def lookup_backend(compiler_fn: str | Backend) -> Backend:
    """The backend of this name; a callable is given back.  Raises `InvalidBackend`.

    >>> import framelift
    >>> framelift.lookup_backend("eager").__name__
    'eager'
    """
    if not isinstance(compiler_fn, str):
        if not callable(compiler_fn):
            raise InvalidBackend(f"a backend is a name or a callable, not {type(compiler_fn).__name__}")
        return compiler_fn
    if compiler_fn in _IN_TORCH and compiler_fn not in _of_torch():
        importlib.import_module(f"torch._dynamo.backends.{_IN_TORCH[compiler_fn]}")
    found = BACKENDS.get(compiler_fn) or _of_torch().get(compiler_fn)
    if found is None:
        point = _entry_points().get(compiler_fn)
        found = register(compiler_fn)(point.load()) if point is not None else None
    if found is None:
        known = list_backends(None)
        near = difflib.get_close_matches(compiler_fn, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"registered are {', '.join(known)}"
        raise InvalidBackend(f"no backend is called {compiler_fn!r}; {hint}")
    return found


def lookup(backend: str | Backend, *, mode: str | None = None, options: dict[str, Any] | None = None) -> Backend:
    """The backend a user named or gave, with `mode` and `options` bound to it.  Raises `InvalidBackend`."""
    found = lookup_backend(backend)
    written_inputs.install()  # the backend may be made of AOTAutograd
    extra: dict[str, Any] = {}
    if mode is not None and mode != "default":
        extra["mode"] = mode
    if options and options.get("use_aoti"):
        if found is not BACKENDS["inductor"]:
            raise IncorrectUsage("options={'use_aoti': True} is for the backend inductor")
        rest = {key: value for key, value in options.items() if key != "use_aoti"}
        made: Backend = compilers.TorchCompileAOTInductorWrapper(mode, rest, None)
        return made
    if options:
        extra["options"] = options
    if extra and hasattr(found, "check"):
        found.check(extra.get("mode"), extra.get("options"))
    elif extra:
        _check_takes(found, extra)
    return functools.partial(found, **extra) if extra else found


#: of Inductor; framelift's other backends take them and do nothing for them but warn, as torch's do
_MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def _check_takes(backend: Backend, extra: dict[str, Any]) -> None:
    """Raise where a backend does not take a mode or options that a user gave."""
    mode = extra.get("mode", "default")
    if id(backend) in _OWN and mode not in _MODES:
        near = difflib.get_close_matches(str(mode), _MODES, n=1)
        raise IncorrectUsage(
            f"there is no mode {mode!r}; "
            + (f"did you mean {near[0]!r}?" if near else f"modes are {', '.join(_MODES)}")
        )
    if id(backend) in _OWN:
        given = " and ".join(f"{name}={value!r}" for name, value in extra.items())
        warnings.warn(f"framelift: the backend {name_of(backend)} has no use for {given}", stacklevel=4)
        return
    try:
        taken = inspect.signature(backend).parameters.values()
    except (TypeError, ValueError):  # of a callable written in C
        return
    if not any(one.kind is one.VAR_KEYWORD for one in taken):
        for name in extra.keys() - {one.name for one in taken}:
            raise IncorrectUsage(f"the backend {name_of(backend)} takes no {name}: it has no parameter of that name")


def parts_of(backend: Any) -> tuple[Any, dict[str, Any]]:
    """Return a backend, and the mode and options that are bound to it."""
    return (backend.func, backend.keywords) if isinstance(backend, functools.partial) else (backend, {})


def compiler_config_of(backend: Backend) -> Callable[[], Any] | None:
    """`get_compiler_config` of a backend, with the mode and options that are bound to it."""
    shown = getattr(parts_of(backend)[0], "get_compiler_config", None)
    if shown is None or not isinstance(backend, functools.partial):
        return shown
    return functools.partial(shown, **backend.keywords)


def name_of(backend: Backend) -> str:
    """Return the name of a backend in messages."""
    inner = parts_of(backend)[0]
    for name, registered in BACKENDS.items():
        if registered is inner:
            return name
    return getattr(inner, "compiler_name", None) or getattr(inner, "__name__", None) or type(inner).__name__


#: framelift's own backends, which do not read what a graph says of its nodes
_OWN = frozenset(id(backend) for backend in BACKENDS.values())
_used: dict[int, Any] = {}  # backends that have compiled something and have a `reset`


def reset_backends() -> None:
    """Tell the backends that were used to forget what they keep."""
    for backend in list(_used.values()):
        backend.reset()
    _used.clear()


@functools.cache
def _creating(kind: str) -> Callable[..., Any]:
    """Return a function with the name of a kind of guards, as torch's guards have it."""

    def create(*_args: Any) -> None:
        pass

    create.__name__ = GUARD_TYPES.get(kind, kind)
    return create


class _Context(TracingContext):
    """The tracing context of torch's compilers; its fake mode is made when one reads it. Shapes are static there.

    It has a shape environment all the same: torch's disk caches take no graph without one.  Only where the graph
    has operators with bodies, loops among them, may it make symbols for values that only the data decides.
    """

    def __init__(self, fake_mode: FakeTensorMode | None, examples: Sequence[Any], bodies: bool) -> None:
        self._fake_mode: FakeTensorMode | None
        super().__init__(fake_mode)  # sets it, by the property
        self._examples, self._bodies = examples, bodies
        self.traced_code = code_now()
        self._closed = False

    def close(self) -> None:
        """From now on no mode is made: torch asks for it once more when the compiler is done.

        A backward that is compiled late keeps the context; the examples are the program's, and may be a whole model.
        """
        self._closed, self._examples = True, ()
        forget_tensors(self._fake_mode)

    @property
    def guards_context(self) -> GuardsContext:
        """The guards of the capture so far, for backends that look at them."""
        if not self._guards.dynamo_guards:
            for name, kind in guards_now():
                self._guards.dynamo_guards.add(Guard(source_called(name), _creating(kind)))
        return self._guards

    @guards_context.setter
    def guards_context(self, guards: GuardsContext) -> None:
        self._guards = guards

    @property
    def fake_mode(self) -> FakeTensorMode | None:
        if self._fake_mode is None and not self._closed:
            env = ShapeEnv(allow_scalar_outputs=self._bodies, allow_dynamic_output_shape_ops=self._bodies)
            self._fake_mode = mode = FakeTensorMode(shape_env=env)
            keep_device_guard(mode)
            # The mode knows these while they live: compilers that ask it for a fake of an example get one of fixed
            # sizes.
            self._fakes = [
                fake_of(mode, example)
                for example in self._examples
                if isinstance(example, torch.Tensor) and type(example) is not FakeTensor
            ]
        return self._fake_mode

    @fake_mode.setter
    def fake_mode(self, mode: FakeTensorMode | None) -> None:
        self._fake_mode = mode


def _missing_compiler() -> str:
    """A sentence where Inductor cannot work since this machine has no compiler."""
    named = shlex.split(os.environ.get("CXX", ""))[:1]
    if any(map(shutil.which, named or ("g++", "clang++", "c++"))):
        return ""
    what = f"CXX names {named[0]}, which is not there" if named else "no C++ compiler was found"
    return f'{what}: Inductor needs one (install g++, or set CXX); backend="aot_eager" needs none'


def _context(graph_module: GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode | None) -> _Context:
    bodies = any(isinstance(node.target, HigherOrderOperator) for node in graph_module.graph.nodes)
    return _Context(fake_mode, example_inputs, bodies)


def compile_graph(
    backend: str | Backend,
    graph_module: GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    fake_mode: FakeTensorMode | None = None,
) -> Callable[..., Any]:
    """Run a backend on one graph, in the torch state the graph will be called in.

    Torch's state, random numbers and the interpreter's settings are left as they were, and a failure is a
    `BackendCompilerFailed`.  A backend that raises `SkipFrame` is let through.  Shapes are static unless
    `fake_mode` brings a shape environment.  Where the backend fails on a graph that was rewritten, it gets the plain
    one (rewrites.py).
    """

    def compile_plainly(inputs: Sequence[Any]) -> Callable[..., Any]:
        with without_rewrites():
            return _compile(backend, graph_module, inputs, fake_mode)

    with noting_rewrites() as rewritten:
        try:
            compiled = _compile(backend, graph_module, example_inputs, fake_mode)
            again = compile_plainly if fake_mode is None else None
            return watching_first_run(compiled, rewritten, graph_module, again)
        except BackendCompilerFailed as error:
            cause = error.inner_exception
            if not rewritten.own or gave_up_on_floats(cause):
                raise
            try:
                compiled = compile_plainly(example_inputs)
            except BackendCompilerFailed:
                if FLOATS in rewritten.own:  # Inductor takes no others
                    rewritten.fell_back(cause, "graph", "Its floats are constants instead")
                raise
            rewritten.fell_back(cause, "graph", "The plain graph was compiled instead")
            return compiled


def _compile(
    backend: str | Backend,
    graph_module: GraphModule,
    example_inputs: Sequence[torch.Tensor],
    fake_mode: FakeTensorMode | None,
) -> Callable[..., Any]:
    if fake_mode is None and may_rewrite(BUCKETS):

        def compile_part(part: GraphModule, given: Sequence[Any], mode: FakeTensorMode) -> Callable[..., Any]:
            rewrote(BUCKETS)
            return compile_graph(backend, part, given, fake_mode=mode)

        in_parts = compile_in_parts(graph_module, example_inputs, compile_part)
        if in_parts is not None:
            return in_parts
    chosen = backend_for_now() or backend
    compiler = lookup(chosen) if isinstance(chosen, str) else chosen
    inner = parts_of(compiler)[0]
    if _is_to_be_minified():
        compiler = importlib.import_module(_REPRO).wrap_backend_debug(compiler, name_of(compiler))
    elif inner is builtin.eager:  # compiles nothing, so it needs no context and changes nothing
        return builtin.eager(graph_module, example_inputs)
    needs_grad = is_grad_enabled() and any(getattr(one, "requires_grad", False) for one in example_inputs)
    arrange_subgraphs(graph_module, is_trained=needs_grad and inner is BACKENDS["inductor"])
    surroundings = ProcessState()
    context = _context(graph_module, example_inputs, fake_mode)
    overridden = inductor_options_now()
    wanted = reference(graph_module, example_inputs) if config.verify_correctness else None
    try:
        with tracing(context), contextlib.closing(context), overridden:
            if fake_mode is None and id(inner) not in _OWN:
                fill_examples(graph_module, lambda: context.fake_mode)
            compiled = compiler(graph_module, list(example_inputs))
        surroundings.failed = False
    except (SkipFrame, InternalError):
        raise
    except Exception as error:
        raise_outside(error)
        if _asks_to_skip(error):
            raise SkipFrame(str(error)) from error
        hint = _missing_compiler() if inner is BACKENDS["inductor"] else ""
        raise BackendCompilerFailed(name_of(compiler), error, hint) from error
    finally:
        insist(surroundings.restore)
    if not callable(compiled):
        error = TypeError(f"it returned an object of type {type(compiled).__name__}, which is not callable")
        raise BackendCompilerFailed(name_of(compiler), error) from error
    if wanted is not None:
        checked(name_of(compiler), compiled, example_inputs, wanted)
    if id(inner) not in _OWN and type(compiled) is types.FunctionType:
        compiled = _giving_several(compiled, name_of(compiler))
    if callable(getattr(inner, "reset", None)) and not isinstance(inner, type):
        _used[id(inner)] = inner
    return _in_context(compiled, getattr(inner, "backend_ctx_ctor", None))


def _giving_several(compiled: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that a program's backend made: its first result would be taken out of a tensor, too."""

    def refused(result: torch.Tensor) -> Any:
        what = f"what it returned gives a {type(result).__name__}, not a tuple or list of the graph's outputs"
        raise BackendCompilerFailed(name, TypeError(what))

    return _core.GraphCall(compiled, lambda error, inputs: None, refused)


_REPRO = "torch._dynamo.repro.after_dynamo"


def _is_to_be_minified() -> bool:
    """Return whether torch's minifier is asked for: a failure writes a script that makes the graph smaller, by its
    level.
    """
    options = dynamo_config.get()
    after = os.environ.get("TORCHDYNAMO_REPRO_AFTER") if options is None else options.repro_after
    return after == "dynamo"


def used_by_drivers(found: Backend, background: Any = None, shared: Any = None) -> UsedBackend:
    """A backend as drivers use it.  `shared`: the settings with which captures are shared; None: with nobody."""
    inner = parts_of(found)[0]
    is_eager, is_own = getattr(inner, "runs_graphs_eagerly", False) is True, id(inner) in _OWN
    return UsedBackend(
        functools.partial(compile_graph, found),
        name_of(found),
        found,
        functools.partial(submit_graph, found),
        background,
        shared,
        shared is not None and getattr(inner, "reuses_equal_graphs", False) is True,
        is_eager,
        getattr(inner, "unrolls_recurrent_networks", False) is True,
        not is_own,
        getattr(inner, "has_disk_cache", False) is True,
        Habits(
            is_eager or not is_own, not is_eager and not is_own, getattr(inner, "keeps_memory_of_nodes", False) is True
        ),
    )


def submit_graph(
    backend: str | Backend,
    graph_module: GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    fake_mode: FakeTensorMode | None = None,
) -> Job | None:
    """Have a graph compiled in another process, in the torch state of now; None where that is not possible."""
    compiler = lookup(backend) if isinstance(backend, str) else backend
    packing = getattr(parts_of(compiler)[0], "pack", None)
    if packing is None:
        topic("background").info(
            "%s is not compiled in the background: its backend keeps nothing on disk", name_of(compiler)
        )
        return None
    context = _context(graph_module, example_inputs, fake_mode)
    try:
        with tracing(context), contextlib.closing(context):
            return submit(packing(graph_module, list(example_inputs), **getattr(compiler, "keywords", {})))
    except NotPacked as why:
        topic("background").info("a graph is not compiled in the background: %s", why)
        return None


def _asks_to_skip(error: BaseException) -> bool:
    """Return whether this is TorchDynamo's own `SkipFrame`, from a backend written for it."""
    theirs = dynamo_exc.get()
    return theirs is not None and isinstance(error, theirs.SkipFrame)


def _in_context(
    compiled: Callable[..., Any], make: Callable[[], contextlib.AbstractContextManager[Any]] | None
) -> Callable[..., Any]:
    if make is None:
        return compiled

    def run(*args: Any) -> Any:
        with make():
            return compiled(*args)

    return run
