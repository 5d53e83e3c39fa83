"""A fact of torch: Inductor takes the best set of vector instructions that works, and tries all others too.

For each it compiles and loads a program, which takes seconds of CPU time in a cold start.

Here it tries them from the best one down, until one works.  What it takes is the same.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any


@functools.cache
def try_only_the_best() -> None:
    """From now on in this process."""
    from ..torch_ports.inductor import cpu_vec_isa

    # elsewhere there are one or two sets
    if (
        sys.platform == "linux"
        and hasattr(cpu_vec_isa, "supported_vec_isa_list")
        and hasattr(cpu_vec_isa, "x86_isa_checker")
    ):
        cpu_vec_isa.valid_vec_isa_list = _best_first(cpu_vec_isa.valid_vec_isa_list, cpu_vec_isa)


def _best_first(every: Callable[[], list[Any]], module: Any) -> Callable[[], list[Any]]:
    from ..torch_ports.inductor import inductor_config as config

    @functools.cache
    def best() -> list[Any]:
        flags = module.x86_isa_checker()
        usable = (one for one in module.supported_vec_isa_list if all(flag in flags for flag in str(one).split()))
        return next(([one] for one in usable if one), [])

    @functools.wraps(every)
    def valid() -> list[Any]:
        # Other processors have no such flags, and a setting may ask for another set than the best one.
        if not module.x86_isa_checker() or config.cpp.simdlen is not None or os.getenv("ATEN_CPU_CAPABILITY"):
            return every()
        return best()

    def cache_clear() -> None:
        best.cache_clear()
        getattr(every, "cache_clear", lambda: None)()

    setattr(valid, "cache_clear", cache_clear)
    return valid
