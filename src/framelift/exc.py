"""The exceptions a user of framelift can meet.

While the drop-in is installed, those that torch.compile has too are also subclasses of TorchDynamo's
(drop_in.py).  So nothing here relies on which class comes next: `FrameliftError` is the end of every chain of
constructors.
"""

from __future__ import annotations

import traceback
from typing import Any

__all__ = [
    "BackendCompilerFailed",
    "ConstraintViolation",
    "FailOnRecompileLimitHit",
    "ForbiddenCallable",
    "FrameliftError",
    "IncorrectUsage",
    "InternalError",
    "InternalTorchDynamoError",
    "InvalidBackend",
    "NotImplementedHere",
    "NotCallable",
    "PackageError",
    "RankError",
    "RecompileError",
    "SkipFrame",
    "TorchDynamoException",
    "TorchRuntimeError",
    "UncapturedHigherOrderOpError",
    "UnknownOption",
    "Unsupported",
    "UnsupportedPlatform",
    "UserError",
    "VerificationFailed",
    "WrongArgument",
    "WrongType",
    "WrongValue",
]


class _Error(RuntimeError):
    """Has the memory layout of a Python class, so that another one can take its place as a base (drop_in.py)."""


class FrameliftError(_Error):
    """Base of every error framelift raises on its own account."""

    def __init__(self, *args: Any) -> None:
        RuntimeError.__init__(self, *args)

    __reduce__ = RuntimeError.__reduce__


class Unsupported(FrameliftError):
    """`fullgraph=True` was asked for, and something cannot be captured.  `reason` is its declared id; `real_stack` has
    the program's frames there, outermost first.
    """

    real_stack: traceback.StackSummary = traceback.StackSummary()

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.msg = message
        self.reason = self.gb_type = reason

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.reason), {"real_stack": self.real_stack}


class UncapturedHigherOrderOpError(Unsupported):
    """The body of a control-flow operator cannot be captured, and there is no eager fallback for it."""


class TorchRuntimeError(Unsupported):
    """With `fullgraph=True`: a torch operation fails on the shapes and types it is given, with a RuntimeError."""


class UserError(Unsupported):
    """With `fullgraph=True`: the program asks for a value that only the data decides."""

    error_type: Any = "ANTI_PATTERN"  # TorchDynamo's member of that name while the drop-in is installed


class ConstraintViolation(FrameliftError):
    """A size that was marked dynamic is a constant of the program.  It is torch's ConstraintViolationError, too: its
    base is added where it is raised, since importing torch's takes long.
    """


class InternalError(FrameliftError):
    """A defect of framelift itself, never of the user's program."""


class InvalidBackend(FrameliftError):
    """The backend's name is not registered, or it is not callable.  A `name` alone is enough, as for TorchDynamo's."""

    def __init__(self, message: str = "", *, name: str = "") -> None:
        super().__init__(message or f"Invalid backend: {name!r}, see framelift.list_backends() for available backends.")


class BackendCompilerFailed(FrameliftError):
    """The backend raised while it compiled a graph; `inner_exception` and `__cause__` are its own exception."""

    floats: frozenset[str] = frozenset()  # symbols that it has no use for
    first_useful_frame = None

    def __init__(self, backend: str, cause: BaseException, hint: str = "") -> None:
        path = getattr(cause, "minifier_path", None)  # torch's minifier was asked for
        minified = f"\nMinifier script written to {path}. Run it to find the smallest graph that fails." if path else ""
        super().__init__(
            f"backend={backend!r} raised:\n{type(cause).__name__}: {cause}{minified}{hint and chr(10)}{hint}"
        )
        self.hint = hint
        self.backend = self.backend_name = backend
        self.inner_exception = cause

    def __reduce__(self) -> Any:
        return type(self), (self.backend, self.inner_exception, self.hint)


class SkipFrame(FrameliftError):
    """Raised by a backend to ask that this frame run eagerly."""


class PackageError(FrameliftError):
    """A package cannot be written or read, is not for this machine, or has no capture for a call."""


class RecompileError(FrameliftError):
    """`config.error_on_recompile`: a function would be recompiled."""


class FailOnRecompileLimitHit(FrameliftError):
    """`config.fail_on_recompile_limit_hit`, or `fullgraph=True`: the limit of captures was reached."""


class VerificationFailed(FrameliftError):
    """A compiled call gave another result, effect or random state than eager mode."""


class RankError(FrameliftError):
    """Ranks agree before compiled calls (`set_enable_guard_collectives`), and another one failed or calls others."""


class IncorrectUsage(FrameliftError):
    """A marker or option of framelift was used where it has no meaning."""


# Of the classes that Python, and torch.compile's functions, raise for such arguments, too.


class WrongType(FrameliftError, TypeError):
    """An argument of a function of framelift's is of a type that it cannot be."""


class WrongValue(FrameliftError, ValueError):
    """An argument of a function of framelift's has a value that it cannot have."""


class WrongArgument(FrameliftError, AssertionError):
    """An argument is none that the function takes, where torch.compile's function asserts."""


class NotImplementedHere(FrameliftError, NotImplementedError):
    """torch.compile or torch.export has this, and framelift has not."""


class UnknownOption(FrameliftError, AttributeError):
    """`framelift.config` has no option of this name."""


class ForbiddenCallable(FrameliftError, AssertionError):
    """Captured code met a callable that `forbid_in_graph` marks."""


class NotCallable(FrameliftError, TypeError, AssertionError):
    """The object to compile is not callable."""


class UnsupportedPlatform(FrameliftError):
    """This Python or torch is outside what framelift supports."""


TorchDynamoException = FrameliftError
InternalTorchDynamoError = InternalError
