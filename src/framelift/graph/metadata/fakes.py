"""One torch call over tensors without data: what its results are like.  Asked when the metadata cache does not know.

Fake tensors know every device and show every operator that runs; plain meta tensors are cheaper and do for the
operations of meta_kernels.py.  Both are made from facts for the occasion, so the answer depends on nothing but the
arguments' facts and the torch state; that is what allows it to be cached.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from ... import _core
from ..._core import is_a
from ...torch_ports.fakes import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    enable_python_dispatcher,
)
from ...torch_ports.tensors import set_conj, set_neg
from ...vocabulary.class_reads import name_of, qualname_of
from ...vocabulary.outside_exceptions import raise_outside
from ...vocabulary.reasons import Interrupt
from .device_guard import keep_device_guard
from .facts import Facts, facts_of, intern_facts
from .unheard import unheard
from .wrappers import WrapperFacts


class _FakesOfThread(threading.local):
    silent = 0


_thread = _FakesOfThread()
logging.getLogger("torch._subclasses.fake_tensor").addFilter(lambda _record: not _thread.silent)  # of this thread alone
_SEEDED = torch.Tag.nondeterministic_seeded
_KNOWN_NAMESPACES = frozenset({"aten", "prims", "prim"})
#: may draw random numbers on some device without saying so in their tags
_MAY_DRAW = (
    "_scaled_dot_product",
    "_flash_attention",
    "_efficient_attention",
    "_cudnn_attention",
    "_cudnn_rnn",
    "miopen_rnn",
    "native_dropout",
    "_fused_sdp",
)
#: of these, what draws none where its dropout is zero
_QUIET = frozenset(
    {
        "_fused_sdp_choice",
        "_scaled_dot_product_attention_math",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_flash_attention_forward",
        "_efficient_attention_forward",
    }
)
#: give nothing, and are there for what they check
_CHECKS = ("_assert_", "sym_constrain_range", "_functional_assert")
#: effect levels: why an operation must stay in a graph even if its result is unused (it draws, or is not known)
DRAWS, UNKNOWN = 1, 2
#: operator -> (its effect level, positions it writes, names it writes, position of a dropout
#: without which it need not)
_operators: dict[Any, tuple[int, tuple[int, ...], tuple[str, ...], int]] = {}


def _describe(operator: Any) -> tuple[int, tuple[int, ...], tuple[str, ...], int]:
    schema = getattr(operator, "_schema", None)
    if schema is None:
        return UNKNOWN, (), (), -1
    draws = _SEEDED in operator.tags or operator._opname.startswith((*_MAY_DRAW, *_CHECKS))
    effect_level = UNKNOWN if operator.namespace not in _KNOWN_NAMESPACES else DRAWS if draws else 0
    written = [(i, a) for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    dropout = (
        next((i for i, a in enumerate(schema.arguments) if a.name == "dropout_p"), -1)
        if operator._opname in _QUIET
        else -1
    )
    return effect_level, tuple(i for i, _ in written), tuple(a.name for _, a in written), dropout


class _WatchedMode(FakeTensorMode):
    """A fake mode that notes which operators run: random ones, unknown ones, and what memory is written."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=False)
        self.cache_enabled = False  # ours is in front of it
        self._allow_unsafe_data_ptr_access = False  # an operator that looks at memory must not get a null pointer
        self.effect_level = 0
        self.written: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = _operators.get(func)
        if known is None:
            known = _operators[func] = _describe(func)
        effect_level, positions, names, dropout = known
        if effect_level > self.effect_level and (
            dropout < 0 or (args[dropout] if dropout < len(args) else (kwargs or {}).get("dropout_p", 0.0)) != 0
        ):
            self.effect_level = effect_level
        for position in positions:
            if position < len(args):
                self._note_write(args[position])
        if kwargs:
            for name in names:
                self._note_write(kwargs.get(name))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _note_write(self, written: Any) -> None:
        if is_a(written, torch.Tensor):
            self.written.add(_storage_id(written))
        elif is_a(written, (list, tuple)):
            for item in written:
                self._note_write(item)


def _storage_id(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided:
        raise Interrupt("tensor-kind", f"layout {tensor.layout}")
    return tensor.untyped_storage()._cdata


class _NonLeaf(torch.autograd.Function):
    """Gives a fresh tensor a history, which is what makes it a non-leaf that requires grad."""

    @staticmethod
    def forward(ctx: Any, seed: torch.Tensor, fresh: Callable[[], torch.Tensor]) -> torch.Tensor:
        return fresh()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        raise AssertionError("fakes are never differentiated")


def with_history(fresh: Callable[[], torch.Tensor], requires_grad: bool, is_leaf: bool) -> torch.Tensor:
    """The tensor that `fresh` gives, no view of any other, with this autograd state."""
    with torch.set_grad_enabled(requires_grad and not is_leaf):
        if requires_grad and not is_leaf:
            return _NonLeaf.apply(torch.empty(0, requires_grad=True), fresh)
        return fresh().requires_grad_(requires_grad)


class Observed:
    """The outcome of one call over fakes: the raw result, and what became of the arguments."""

    __slots__ = ("changes", "device", "effect_level", "fakes", "result", "storages", "written")

    def __init__(
        self,
        result: Any,
        fakes: list[torch.Tensor],
        storages: list[int],
        effect_level: int = 0,
        written: tuple[int, ...] = (),
        changes: tuple[tuple[int, Facts], ...] = (),
        device: torch.device | None = None,
    ) -> None:
        self.result = result
        self.device = device  # of all results, where the fakes are plain meta tensors
        self.fakes = fakes  # one per distinct argument, in the order given
        self.storages = storages  # of those fakes, before the call
        self.effect_level = effect_level
        self.written = written  # indices of arguments whose memory was written
        self.changes = changes  # arguments whose facts are others than before


@functools.cache
def _imported() -> None:
    """Let torch import what its first fake mode needs.  That takes seconds, which are not those of the function that
    is rehearsed.
    """
    _core.timed_apart(first_imports_of_torch)


def first_imports_of_torch() -> None:
    """In a thread of its own: modules of torch's look at the frames that import them and keep these until the
    collector comes; frames of a rehearsal hold the program's objects.
    """
    thread = threading.Thread(target=FakeTensorMode)
    thread.start()
    thread.join()


class Fakes:
    """The fake tensors of one rehearsal."""

    def __init__(self) -> None:
        self._pools: dict[Facts, list[FakeTensor]] = {}

    @functools.cached_property
    def mode(self) -> _WatchedMode:
        """Made when it is first needed: often all answers are in the metadata cache."""
        _imported()
        mode = _WatchedMode()
        keep_device_guard(mode)
        return mode

    def become_symbolic(self, env: ShapeEnv) -> None:
        """Fakes may have symbolic sizes from now on."""
        self.mode.shape_env = env
        self.mode.static_shapes = False

    def observe(self, name: str, facts: list[Facts], call: Callable[[list[FakeTensor]], Any]) -> Observed:
        """Run `call` over fakes with the facts given, or interrupt.  Torch function must be off."""
        fakes = self._borrow(facts)
        storages = [_storage_id(fake) for fake in fakes]
        mode = self.mode
        symbols = len(mode.shape_env.var_to_range) if mode.shape_env is not None else 0
        mode.effect_level = 0
        mode.written.clear()
        try:
            result = self._run(name, mode, call, fakes)
            changes = tuple(
                (i, now)
                for i, fake in enumerate(fakes)
                if (now := facts_of(fake)) is not facts[i] and not now.agrees(facts[i])
            )
        except BaseException:
            self._pools.clear()  # they may have been changed half-way
            raise
        if mode.shape_env is not None and len(mode.shape_env.var_to_range) > symbols:
            self._pools.clear()  # fakes remember the numbers taken from them, and each stands for many tensors
        written = tuple(i for i, storage in enumerate(storages) if storage in mode.written)
        for i in {*written, *(i for i, _ in changes)}:
            pool = self._pools.get(facts[i], [])
            pool[:] = [fake for fake in pool if fake is not fakes[i]]
        return Observed(result, fakes, storages, mode.effect_level, written, changes)

    def observe_on_meta(self, facts: list[Facts], call: Callable[[list[torch.Tensor]], Any]) -> Observed | None:
        """The same over plain meta tensors; None if that is not enough.  `runs_on_meta` must have allowed it."""
        metas = [
            self._make(one, lambda one: torch.empty_strided(one.size, one.stride, dtype=one.dtype, device="meta"))
            for one in facts
        ]
        storages = [_storage_id(meta) for meta in metas]
        versions = [meta._version for meta in metas]
        try:
            with unheard():
                result = call(metas)
        except Exception as error:
            raise_outside(error)
            return None  # the fakes will say what is wrong
        if [meta._version for meta in metas] != versions:
            return None  # an `inplace` argument
        return Observed(result, metas, storages, device=facts[0].device)

    def _run(
        self, name: str, mode: _WatchedMode, call: Callable[[list[FakeTensor]], Any], fakes: list[FakeTensor]
    ) -> Any:
        with _core.SignalsWait():  # an exception at the end of a mode within torch's own code would end the process
            return self._run_now(name, mode, call, fakes)

    def _run_now(
        self, name: str, mode: _WatchedMode, call: Callable[[list[FakeTensor]], Any], fakes: list[FakeTensor]
    ) -> Any:
        cache = torch.is_autocast_cache_enabled()
        silent = _thread.silent
        try:
            _thread.silent = silent + 1  # torch logs what fails; the interrupt says it
            torch.set_autocast_cache_enabled(False)  # casts of fakes must not be kept
            # Without the Python dispatcher composite operations would take the values of symbolic sizes.
            if mode.shape_env is None:
                try:
                    with unheard(), mode:  # the graph will warn when it runs
                        return call(fakes)
                except DataDependentOutputException:
                    if mode.written:
                        raise
            # Some composite operations look at values only in C++: their decompositions in Python do not.
            with unheard(), mode, enable_python_dispatcher():
                return call(fakes)
        except Interrupt:
            raise
        except GuardOnDataDependentSymNode as error:
            raise Interrupt("data-dependent-shape", name) from error
        except DynamicOutputShapeException as error:
            raise Interrupt("data-dependent-shape", name) from error
        except DataDependentOutputException as error:
            raise Interrupt("tensor-item", name) from error
        except (UnsupportedOperatorException, UnsupportedFakeTensorException, NotImplementedError) as error:
            raise Interrupt("torch-operation", name) from error
        except Exception as error:
            raise_outside(error)
            raise Interrupt("torch-operation-failed", f"{name}: {name_of(type(error))}: {error}") from error
        finally:
            _thread.silent = silent
            torch.set_autocast_cache_enabled(cache)

    def run(self, name: str, call: Callable[[list[Any]], Any], fakes: list[Any]) -> Any:
        """Return the result of `call` for these fakes, which are the caller's own."""
        return self._run(name, self.mode, call, fakes)

    def make(self, facts: Facts) -> FakeTensor:
        """A new fake with these facts."""
        return self._make(facts, self._bare)

    def _borrow(self, facts: list[Facts]) -> list[FakeTensor]:
        """One fake per facts; the same facts twice are two fakes."""
        used: dict[Facts, int] = {}
        fakes = []
        for wanted in facts:
            pool = self._pools.setdefault(wanted, [])
            index = used.get(wanted, 0)
            used[wanted] = index + 1
            if index == len(pool):
                pool.append(self._make(wanted, self._bare))
            fakes.append(pool[index])
        return fakes

    def _make(self, facts: Facts, bare: Callable[[Facts], torch.Tensor]) -> Any:
        """Make a tensor with `bare`, and give it the autograd state of the facts."""
        if type(facts) is WrapperFacts:  # it takes its inner tensors' fakes to make one
            raise Interrupt(
                "tensor-subclass", f"{qualname_of(facts.kind)}, of which another operation needs an example,"
            )
        with _core.SignalsWait(), torch.inference_mode(facts.is_inference), torch.set_grad_enabled(True):
            if facts.requires_grad and not facts.is_leaf:
                return _NonLeaf.apply(bare(_SEED).requires_grad_(), lambda: bare(facts))
            made = bare(facts)
            return made.requires_grad_() if facts.requires_grad else made

    def _bare(self, facts: Facts) -> FakeTensor:
        meta = torch.empty_strided(facts.size, facts.stride, dtype=facts.dtype, device="meta")
        if facts.is_conj:
            set_conj(meta, True)
        if facts.is_neg:
            set_neg(meta, True)
        return FakeTensor(self.mode, meta, facts.device)


_SEED = intern_facts(torch.float32, torch.device("cpu"), torch.Size(()), (), False, True, False, False, False)
