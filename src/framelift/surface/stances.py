"""`set_stance`: a policy on compiling for the whole process, as a call, a block or a decorator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from .. import _core
from ..capture import stance
from ..capture.stance import STANCES, Stance
from ..exc import IncorrectUsage, WrongType
from ..substitutes.marks import forbidden, on_code

_F = TypeVar("_F")
_Stances = Literal[
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
    "background",
]
_CAPTURING = (1, 2)  # RunOnly and Capture of csrc/state.h: below a compiled function that runs eagerly


class set_stance:
    """Set what compiled callables do: the names are those of `torch.compiler.set_stance`.

    default: capture.  force_eager: ignore every compile.  eager_on_recompile: use what was captured, capture
    nothing new.  fail_on_recompile: recompiling is an error.  eager_then_compile, aot_eager_then_compile: the
    first call plainly, or with the backend aot_eager.  background: graphs run uncompiled while another process
    compiles them.  `force_backend` replaces the backend of everything called meanwhile.

    >>> import torch, framelift
    >>> f = framelift.compile(lambda x: x + torch.compiler.is_compiling(), backend="eager")
    >>> with framelift.set_stance("force_eager"):
    ...     f(torch.ones(1))
    tensor([1.])
    >>> f(torch.ones(1))
    tensor([2.])
    """

    _dynamo_forbidden = True

    def __init__(
        self,
        stance: _Stances = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        if stance not in STANCES:
            raise IncorrectUsage(f"invalid torch.compile stance {stance!r}; there are {', '.join(STANCES)}")
        if not isinstance(skip_guard_eval_unsafe, bool):
            raise WrongType(f"skip_guard_eval_unsafe is True or False, not {skip_guard_eval_unsafe!r}")
        if force_backend is not None and stance != "default":
            raise IncorrectUsage("non-default stance cannot have force_backend set")
        self.stance = Stance(stance, skip_guard_eval_unsafe, force_backend)
        self.before = _put(self.stance)

    def __enter__(self) -> None:
        _put(self.stance)

    def __exit__(self, *exc: Any) -> None:
        _put(self.before)

    def __call__(self, fn: _F) -> _F:
        _put(self.before)  # decorating is not yet setting
        return _wrapped(fn, self.stance)


def _wrapped(fn: Any, wanted: Stance) -> Any:
    @functools.wraps(fn)
    def with_stance(*args: Any, **kwargs: Any) -> Any:
        before = _put(wanted)
        try:
            return fn(*args, **kwargs)
        finally:
            _put(before)

    setattr(with_stance, "_dynamo_forbidden", True)
    return with_stance


on_code(forbidden)(_wrapped(lambda: None, Stance()))


def _put(wanted: Stance) -> Stance:
    if _core.get_mode() in _CAPTURING:
        raise IncorrectUsage("attempted to set_stance in a torch.compile region")
    return stance.put(wanted)
