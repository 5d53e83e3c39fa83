"""Another backend for some graphs, or other options of Inductor, to find the one that fails: by compile id
(`config.debug_backend_override`, `config.debug_inductor_config_override`), or as torch's CompilerBisector says.
"""

from __future__ import annotations

import contextlib
from typing import Any

from .. import config
from ..capture.frame_rules import NoRule, frame_now, options_for, values_for
from ..torch_ports.loaded import inductor_bisector


def backend_for_now() -> str | None:
    """The backend that the capture going on is to use in place of its own; None: its own."""
    if config.debug_backend_override:
        backends = list(dict.fromkeys(values_for(config.debug_backend_override, "debug_backend_override", frame_now())))
        if len(backends) > 1:
            raise NoRule(f"debug_backend_override has several backends for frame {frame_now()}: {backends}")
        if backends:
            return backends[0]
    bisector = inductor_bisector.get()
    found: str | None = bisector.CompilerBisector.get_backend() if bisector is not None else None
    return found


def inductor_options_now() -> contextlib.AbstractContextManager[Any]:
    """Inductor's options for the capture going on, while its backend works."""
    text = config.debug_inductor_config_override
    options = options_for(text, "debug_inductor_config_override", frame_now()) if text else {}
    if not options:
        return contextlib.nullcontext()
    from ..torch_ports.inductor import inductor_config as inductor  # not needed by most programs

    unknown = [name for name in options if name not in inductor._config]
    if unknown:
        raise NoRule(f"debug_inductor_config_override sets {unknown[0]}, which torch._inductor.config does not have")
    patched: contextlib.AbstractContextManager[Any] = inductor.patch(options)
    return patched
