"""The exceptions a user of framelift can meet."""

from __future__ import annotations

__all__ = ["BackendCompilerFailed", "FrameliftError", "InternalError", "InvalidBackend", "UncapturedHigherOrderOpError", "Unsupported",
           "UnsupportedPlatform"]


class FrameliftError(RuntimeError):
    """Base of every error framelift raises on its own account."""


class Unsupported(FrameliftError):
    """`fullgraph=True` was asked for, and something cannot be captured.  `reason` is its declared id."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class UncapturedHigherOrderOpError(Unsupported):
    """The body of a control-flow operator cannot be captured; it has no meaning outside of a graph, so nothing falls back to plain Python."""


class InternalError(FrameliftError):
    """A defect of framelift itself, never of the user's program."""


class InvalidBackend(FrameliftError):
    """The backend's name is not registered, or it is not callable."""


class BackendCompilerFailed(FrameliftError):
    """The backend raised while it compiled a graph; `__cause__` is its own exception."""

    def __init__(self, backend: str, cause: BaseException) -> None:
        super().__init__(f"backend {backend!r} failed to compile a captured graph: {type(cause).__name__}: {cause}")
        self.backend = backend


class UnsupportedPlatform(FrameliftError):
    """This Python or torch is outside what framelift supports."""
