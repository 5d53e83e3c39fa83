"""Settings of torch that a graph cannot change half-way: compilers look at them once, when they compile.

A graph whose operations all run under one and the same choice is compiled and run under it, whatever the settings
around it are.  What begins with other settings than the graph so far has is not part of that graph.  Reading
settings is state of the process, which entries guard as a whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import torch

from ..._core import insist, is_a, note_place
from ...torch_ports.autograd import enter_inference_mode, exit_inference_mode
from ...torch_ports.state import (
    get_deterministic_algorithms,
    get_deterministic_algorithms_warn_only,
    set_deterministic_algorithms,
    setting_function,
    setting_functions,
)
from ...vocabulary.reasons import Interrupt
from ...vocabulary.scopes import scope


class Setting(NamedTuple):
    """One setting: its name for reasons, how it is read and how it is set, and whether it is about CUDA alone."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], Any]
    cuda: bool = False


def setting_of(name: str, getter: str, setter: str, *, cuda: bool = False) -> Setting | None:
    """The setting that these functions read and write; None where this torch has none."""
    get, set_ = setting_function(getter), setting_function(setter)
    return Setting(name, get, set_, cuda) if get is not None and set_ is not None else None


def _use_deterministic(value: tuple[bool, bool]) -> None:
    set_deterministic_algorithms(value[0], warn_only=value[1])


_NEWER = "fp32_precision"


def _newer(backend: str, op: str) -> Setting | None:
    """The precision of one operation, which the older settings write to."""
    read, write = setting_function("_get_fp32_precision_getter"), setting_function("_set_fp32_precision_setter")
    return Setting(_NEWER, lambda: read(backend, op), lambda value: write(backend, op, value), backend == "cuda")


_ALL: tuple[Setting, ...] = tuple(
    filter(
        None,
        (
            Setting("torch.set_default_dtype", torch.get_default_dtype, torch.set_default_dtype),
            Setting(
                "torch.use_deterministic_algorithms",
                lambda: (get_deterministic_algorithms(), get_deterministic_algorithms_warn_only()),
                _use_deterministic,
            ),
            setting_of(
                "torch.utils.deterministic.fill_uninitialized_memory",
                "_get_deterministic_fill_uninitialized_memory",
                "_set_deterministic_fill_uninitialized_memory",
            ),
            setting_of("torch.backends.cudnn.enabled", "_get_cudnn_enabled", "_set_cudnn_enabled", cuda=True),
            setting_of(
                "torch.backends.cuda.matmul.allow_tf32", "_get_cublas_allow_tf32", "_set_cublas_allow_tf32", cuda=True
            ),
            setting_of("torch.backends.cudnn.benchmark", "_get_cudnn_benchmark", "_set_cudnn_benchmark", cuda=True),
            setting_of(
                "torch.backends.cudnn.deterministic", "_get_cudnn_deterministic", "_set_cudnn_deterministic", cuda=True
            ),
            setting_of("torch.backends.mkldnn.enabled", "_get_mkldnn_enabled", "_set_mkldnn_enabled"),
            setting_of("torch.backends.mkldnn.deterministic", "_get_mkldnn_deterministic", "_set_mkldnn_deterministic"),
            setting_of("torch.backends.cudnn.allow_tf32", "_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32", cuda=True),
            setting_of(
                "torch.set_float32_matmul_precision", "_get_float32_matmul_precision", "_set_float32_matmul_precision"
            ),
            *(_newer(backend, op) for backend in ("cuda", "mkldnn") for op in ("conv", "rnn", "matmul")),
        ),
    )
)
_DTYPE = 0

#: C functions that only change one of these
SETTERS: tuple[Any, ...] = setting_functions(
    "_set_default_dtype",
    "_set_deterministic_algorithms",
    "_set_deterministic_fill_uninitialized_memory",
    "_set_cudnn_enabled",
    "_set_cudnn_benchmark",
    "_set_cudnn_deterministic",
    "_set_mkldnn_enabled",
    "_set_mkldnn_deterministic",
)


def _value_of(setting: Setting) -> Any:
    try:
        return setting.get()
    except RuntimeError:  # an older way to set a precision, once newer ones were used
        return None


def has_parent_precision() -> bool:
    """Return whether a precision is set for all operations: those of single ones cannot be told from it then."""
    read = setting_function("_get_fp32_precision_getter")
    return any(read(backend, "all") != "none" for backend in ("generic", "cuda", "mkldnn"))


def read_settings() -> list[Any]:
    """All of them, as they are now."""
    return list(map(_value_of, _ALL))


def _become(wanted: list[Any]) -> None:
    for setting, value in zip(_ALL, wanted):
        if value is not None and _value_of(setting) != value:
            setting.set(value)


def _unlike(one: list[Any], other: list[Any]) -> list[int]:
    """Which settings differ and matter here: no tensor is on a GPU before CUDA is initialized."""
    cuda = torch.cuda.is_initialized()
    return [
        i
        for i, (setting, a, b) in enumerate(zip(_ALL, one, other))
        if a != b and i != _DTYPE and (cuda or not setting.cuda)
    ]


class SettingChanges:
    """The changes of settings in one rehearsal: done for real, and undone at its end."""

    def __init__(self) -> None:
        self.refused = ""  # why a graph cannot have settings of its own
        self.before: list[Any] = []  # empty until captured code sets one
        self._asked: list[Any] | None = None  # what the operations so far run under, the default dtype apart
        self._dtype: torch.dtype | None = None  # the default dtype that operations so far asked for
        self._modes: list[Any] = []  # open inference modes
        self._inference: bool | None = None  # what operations so far run in
        self._mixed = False  # some run in an inference mode and some do not: nodes of the graph enter and leave it
        self._around = False  # what the rehearsal runs in
        self._place: Any = None  # where the last one was set

    @property
    def touched(self) -> bool:
        return bool(self.before)

    def at_first(self, getter: Callable[..., Any], now: Any) -> Any:
        """Return the value of `getter` when the rehearsal began; it returns `now`."""
        return next((value for setting, value in zip(_ALL, self.before) if setting.get is getter), now)

    def touch(self, recorded: bool, asking: bool) -> None:
        """Captured code is about to set one.  `recorded`: there are operations already; `asking`: among them some that
        ask for the default dtype.
        """
        self._place = note_place()
        if not self.before:
            self.before, self._around = read_settings(), torch.is_inference_mode_enabled()
            if recorded:
                self._asked, self._inference = self.before, self._around
            if asking:
                self._dtype = self.before[_DTYPE]

    def enter_inference(self, mode: bool) -> None:
        self._modes.append(enter_inference_mode(mode))

    def exit_inference(self) -> None:
        if not self._modes:
            raise Interrupt("torch-state", "leaving an inference mode that was entered outside")
        self._place = note_place()
        exit_inference_mode(self._modes.pop())

    def _refuse(self, name: str) -> NoReturn:
        interrupt = Interrupt("torch-state", name)
        interrupt.before = self._place
        raise interrupt

    def meet(self, asks_dtype: bool, may_mix: Callable[[], bool]) -> None:
        """An operation runs now: interrupts where the graph so far runs under other settings.

        `may_mix`: a graph that is run as it is can enter and leave an inference mode itself.
        """
        now = read_settings()
        dtype, inference = now[_DTYPE], torch.is_inference_mode_enabled()
        if self._asked is None:
            self._asked, self._inference = now, inference
        if inference != self._inference:
            if self.refused or not may_mix():
                self._refuse("an inference mode around a part of a graph")
            self._mixed = True
        for i in _unlike(now, self._asked):
            self._refuse(f"{_ALL[i].name} between two operations")
        if asks_dtype:
            if self._dtype is None:
                self._dtype = dtype
            if self._dtype is not dtype:
                self._refuse("torch.set_default_dtype between two operations")
        if self.refused and self.chosen() is not None:
            self._refuse(self.refused)

    def chosen(self) -> tuple[bool, tuple[tuple[int, Any], ...]] | None:
        """Return the inference mode that the graph is compiled and run under, and the settings that differ from those
        it is called under; None: nothing.
        """
        if not self.before:
            return None
        asked = self.before if self._asked is None else self._asked
        others = [(i, asked[i]) for i in _unlike(asked, self.before)]
        if self._dtype is not None and self._dtype is not self.before[_DTYPE]:
            others.insert(0, (_DTYPE, self._dtype))
        inference = self._around if self._inference is None or self._mixed else self._inference
        return (inference, tuple(others)) if inference != self._around or others else None

    def left(self) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """The calls after which settings are as the program leaves them; the others are in LeftState."""
        if not self.before:
            return []
        if self._modes:
            raise Interrupt("torch-state", "leaving an inference mode open")
        rows = list(zip(_ALL, self.before, read_settings()))[2:]
        precise = any(old != value for setting, old, value in rows if setting.name == _NEWER)  # older ones write to all
        changed = [(s, value) for s, old, value in rows if old != value or precise and s.name == _NEWER]
        return [(setting.set, (value,)) for setting, value in changed if value is not None]

    def restore(self) -> None:
        """Undo all of it."""
        while self._modes:
            exit_inference_mode(self._modes.pop())
        if self.before:
            _become(self.before)


def asks_default_dtype(dtypes: list[torch.dtype], named: dict[str, Any]) -> bool:
    """Return whether a result may depend on the default dtype: not with floating-point arguments or a given dtype."""
    if not dtypes:
        return not is_a(named.get("dtype"), torch.dtype)
    return not all(dtype.is_floating_point or dtype.is_complex for dtype in dtypes)


@scope
def inside(chosen: tuple[bool, tuple[tuple[int, Any], ...]]) -> Iterator[None]:
    """Torch under the settings that a graph was made for."""
    inference, wanted = chosen
    before = read_settings()
    with (
        torch.inference_mode(inference) if inference != torch.is_inference_mode_enabled() else contextlib.nullcontext()
    ):
        try:
            _become([*(dict(wanted).get(i, value) for i, value in enumerate(before))])
            yield
        finally:
            insist(lambda: _become(before))
