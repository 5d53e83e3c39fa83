"""The substitutes for Python itself and its standard library, put together: importing this module fills the registry with them."""

from __future__ import annotations

from . import (  # noqa: F401  (each fills the registry)
    substitutes_abc,
    substitutes_ast,
    substitutes_cache,
    substitutes_callbacks,
    substitutes_classes,
    substitutes_code,
    substitutes_context,
    substitutes_cuda,
    substitutes_copy,
    substitutes_dispatch,
    substitutes_frames,
    substitutes_identity,
    substitutes_mappings,
    substitutes_numpy,
    substitutes_operator,
    substitutes_solid,
    substitutes_pickle,
    substitutes_print,
    substitutes_logging,
    substitutes_numpy_random,
    substitutes_random,
    substitutes_settings,
    substitutes_stdlib,
    substitutes_views,
    substitutes_warnings,
    substitutes_weakref,
)

__all__: list[str] = []
