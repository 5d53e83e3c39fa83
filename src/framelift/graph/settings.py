"""Settings of torch that a graph cannot change half-way: compilers look at them once, when they compile.

A graph whose operations all run under one and the same choice is compiled and run under it, whatever the settings around it are.  What begins with
other settings than the graph so far has is not part of that graph.  Reading settings is state of the process, which entries guard as a whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import torch
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode

from .._core import note_place
from ..reasons import Interrupt

__all__ = ["SETTERS", "Settings", "asks_default_dtype", "inside"]


class Setting(NamedTuple):
    """One setting: its name for reasons, how it is read and how it is set."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], Any]


def _of(name: str, getter: str, setter: str) -> Setting | None:
    get, set_ = getattr(torch._C, getter, None), getattr(torch._C, setter, None)
    return Setting(name, get, set_) if get is not None and set_ is not None else None


def _use_deterministic(value: tuple[bool, bool]) -> None:
    torch._C._set_deterministic_algorithms(value[0], warn_only=value[1])


#: in the order in which they are set: finer ones come last
_ALL: tuple[Setting, ...] = tuple(filter(None, (
    Setting("torch.set_default_dtype", torch.get_default_dtype, torch.set_default_dtype),
    Setting("torch.use_deterministic_algorithms", lambda: (torch._C._get_deterministic_algorithms(), torch._C._get_deterministic_algorithms_warn_only()),
            _use_deterministic),
    _of("torch.utils.deterministic.fill_uninitialized_memory", "_get_deterministic_fill_uninitialized_memory", "_set_deterministic_fill_uninitialized_memory"),
    _of("torch.backends.cudnn.enabled", "_get_cudnn_enabled", "_set_cudnn_enabled"),
    _of("torch.backends.cudnn.benchmark", "_get_cudnn_benchmark", "_set_cudnn_benchmark"),
    _of("torch.backends.cudnn.deterministic", "_get_cudnn_deterministic", "_set_cudnn_deterministic"),
    _of("torch.backends.mkldnn.enabled", "_get_mkldnn_enabled", "_set_mkldnn_enabled"),
    _of("torch.backends.mkldnn.deterministic", "_get_mkldnn_deterministic", "_set_mkldnn_deterministic"),
)))
_DTYPE = 0

#: C functions that only change one of these
SETTERS: tuple[Any, ...] = tuple(getattr(torch._C, name) for name in (
    "_set_default_dtype", "_set_deterministic_algorithms", "_set_deterministic_fill_uninitialized_memory", "_set_cudnn_enabled", "_set_cudnn_benchmark",
    "_set_cudnn_deterministic", "_set_mkldnn_enabled", "_set_mkldnn_deterministic") if hasattr(torch._C, name))


def _read() -> list[Any]:
    return [setting.get() for setting in _ALL]


def _become(wanted: list[Any] | tuple[Any, ...]) -> None:
    for setting, value in zip(_ALL, wanted):
        if setting.get() != value:
            setting.set(value)


class Settings:
    """What one rehearsal does to settings: done for real, and undone at its end."""

    def __init__(self) -> None:
        self.refused = ""                           # why a graph cannot have settings of its own
        self.before: list[Any] = []                 # empty until captured code sets one
        self._asked: list[Any] | None = None        # what the operations so far run under, the default dtype apart
        self._dtype: torch.dtype | None = None      # the default dtype that operations so far asked for
        self._modes: list[Any] = []                 # open inference modes
        self._inference: bool | None = None         # what operations so far run in
        self._around = False                        # what the rehearsal runs in
        self._place: Any = None                     # where the last one was set

    @property
    def touched(self) -> bool:
        return bool(self.before)

    def touch(self, recorded: bool, asking: bool) -> None:
        """Captured code is about to set one.  `recorded`: there are operations already; `asking`: among them some that ask for the default dtype."""
        self._place = note_place()
        if not self.before:
            self.before, self._around = _read(), torch.is_inference_mode_enabled()
            if recorded:
                self._asked, self._inference = self.before[1:], self._around
            if asking:
                self._dtype = self.before[_DTYPE]

    def enter_inference(self, mode: bool) -> None:
        self._modes.append(_enter_inference_mode(mode))

    def exit_inference(self) -> None:
        if not self._modes:
            raise Interrupt("torch-state", "leaving an inference mode that was entered outside")
        self._place = note_place()
        _exit_inference_mode(self._modes.pop())

    def _refuse(self, name: str) -> NoReturn:
        interrupt = Interrupt("torch-state", name)
        interrupt.before = self._place
        raise interrupt

    def meet(self, asks_dtype: bool) -> None:
        """An operation runs now: interrupts where the graph so far runs under other settings."""
        dtype, *others = _read()
        inference = torch.is_inference_mode_enabled()
        if self._asked is None:
            self._asked, self._inference = others, inference
        if inference != self._inference:
            self._refuse("an inference mode around a part of a graph")
        if others != self._asked:
            name = next(setting.name for setting, a, b in zip(_ALL[1:], others, self._asked) if a != b)
            self._refuse(f"{name} between two operations")
        if asks_dtype:
            if self._dtype is None:
                self._dtype = dtype
            if self._dtype is not dtype:
                self._refuse("torch.set_default_dtype between two operations")
        if self.refused and self.chosen() is not None:
            self._refuse(self.refused)

    def chosen(self) -> tuple[Any, ...] | None:
        """What the graph is to be compiled and run under; None: what it is called under."""
        if not self.before:
            return None
        asked = [self._dtype or self.before[_DTYPE], *(self._asked or self.before[1:])]
        inference = self._around if self._inference is None else self._inference
        return (inference, *asked) if inference != self._around or asked != self.before else None

    def left(self) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """The calls after which settings are as the program leaves them; default dtype and determinism are told by LeftState."""
        if not self.before:
            return []
        if self._modes:
            raise Interrupt("torch-state", "leaving an inference mode open")
        return [(setting.set, (value,)) for setting, old, value in list(zip(_ALL, self.before, _read()))[2:] if old != value]

    def restore(self) -> None:
        """Undo all of it."""
        while self._modes:
            _exit_inference_mode(self._modes.pop())
        if self.before:
            _become(self.before)


def asks_default_dtype(dtypes: list[torch.dtype], named: dict[str, Any]) -> bool:
    """Whether what an operation gives may depend on the default dtype: not if it computes with floating-point tensors, or makes one of a given dtype."""
    if not dtypes:
        return not isinstance(named.get("dtype"), torch.dtype)
    return not all(dtype.is_floating_point or dtype.is_complex for dtype in dtypes)


@contextlib.contextmanager
def inside(chosen: tuple[Any, ...]) -> Iterator[None]:
    """Torch under the settings that a graph was made for."""
    inference, *wanted = chosen
    before = _read()
    with torch.inference_mode(inference) if inference != torch.is_inference_mode_enabled() else contextlib.nullcontext():
        try:
            _become(wanted)
            yield
        finally:
            _become(before)
