"""Environment variables and functions of torch.compile's surface that do nothing here, with the reason: the first warn,
the others raise.  Nothing is ignored in silence.

docs/compatibility.md lists all names (tools/compatibility.py); a test walks torch's own lists of names.
"""

from __future__ import annotations

import os

from ..vocabulary.log import warn

_PROFILE = "what earlier runs showed of sizes is kept by job (TORCH_COMPILE_JOB_ID), or not at all"
_TRANSLATION = "framelift does not translate guards, so there is nothing to validate"
#: environment variable -> why it has no effect
WITHOUT_EFFECT = {
    "TENSORIFY_PYTHON_SCALARS": "floats become inputs of a graph when they change",
    "TORCHDYNAMO_ENABLE_P2P_COMPILATION": "point-to-point operations break the graph",
    "TORCHDYNAMO_NO_DATA_DEPENDENT_GRAPH_BREAK": "a branch on data is a graph break",
    "TORCHDYNAMO_PRINT_MISSING": "framelift.explain and the report show what was not captured",
    "TORCHDYNAMO_TRANSLATION_NO_BISECT": _TRANSLATION,
    "TORCHDYNAMO_TRANSLATION_VALIDATION": _TRANSLATION,
    "TORCHDYNAMO_TRANSLATION_VALIDATION_TIMEOUT": _TRANSLATION,
    "TORCH_COMPILER_COLLECTIVES": "ranks do not ask each other",
    "TORCH_COMPILE_DYNAMO_PROFILER": "FRAMELIFT_PROFILE and TORCH_COMPILE_CPROFILE profile rehearsals",
    "TORCH_COMPILE_REPLAY_RECORD": "a failure of a backend writes a repro file instead",
    "TORCH_COMPILE_STICKY_PGO_KEY": _PROFILE,
    "TORCH_COMPILE_STICKY_PGO_READ": _PROFILE,
    "TORCH_COMPILE_STICKY_PGO_WRITE": _PROFILE,
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO": _PROFILE,
    "TORCH_DYNAMO_DO_NOT_EMIT_RUNTIME_ASSERTS": "checks that a program asks for are part of its graph",
    "TORCH_DYNAMO_GC_GEN2_THRESHOLD_DURING_COMPILE": "framelift makes no collections while it captures",
    "UNSAFE_SKIP_FSDP_MODULE_GUARDS": "framelift has guard programs of its own",
}
#: function -> why it is refused
REFUSED = {"torch._dynamo.replay": "a failure of a backend writes a repro file instead"}

_warned: set[str] = set()


def warn_environment() -> None:
    """Say once of each variable that is set and has no effect, that it has none, and why."""
    for name, why in WITHOUT_EFFECT.items():
        if name not in _warned and os.environ.get(name, "") not in ("", "0"):
            _warned.add(name)
            warn(f"{name}={os.environ[name]} has no effect: {why}")
