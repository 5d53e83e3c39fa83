"""Inductor's C++ kernels raise where a check of theirs fails, instead of ending the process.  A fact about torch, seen
in torch 2.13.

Kernels check indices and assertions by throwing a C++ exception.  They do so inside of loops that OpenMP shares
among threads, and an exception that leaves such a loop terminates the process: `a[i]` with an index out of bounds,
an unknown label in a loss.  torch.compile has the defect, too, wherever a kernel is parallel.

Here the body of such a loop catches what it throws, the first one is kept, bodies that come later are skipped, and
the kernel throws it again behind its loops.  Inductor has no option for that, so three of its methods are wrapped,
once per process, when a graph is first compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_FAILED, _ERROR = "framelift_failed", "framelift_error"
_DECLARE = f"std::atomic<bool> {_FAILED}{{false}};", f"std::exception_ptr {_ERROR};"
_SKIP = f"if (!{_FAILED}.load(std::memory_order_relaxed))"
_CATCH = f"catch (...) {{ if (!{_FAILED}.exchange(true)) {_ERROR} = std::current_exception(); }}"
_RAISE = f"if ({_ERROR}) std::rethrow_exception({_ERROR});"
#: methods of Inductor's kernels that write a line which may throw
_CHECKS = ("check_bounds", "device_assert_async")


@functools.cache
def install() -> dict[str, Any]:
    """Wrap Inductor's methods; the options that are needed besides: one thread, where it is not built as expected."""
    from ..torch_ports.inductor import cpp_module as cpp

    kernel: Any
    proxy: Any
    group: Any
    kernel, proxy, group = (getattr(cpp, name, None) for name in ("CppKernel", "CppKernelProxy", "KernelGroup"))
    wanted = ((kernel, "check_bounds"), (proxy, "gen_body"), (group, "codegen_group"))
    if not all(callable(getattr(cls, name, None)) for cls, name in wanted) or not hasattr(cpp, "BracesBuffer"):
        return {"cpp.threads": 1}
    for name in _CHECKS:
        if name in vars(kernel):
            setattr(kernel, name, _noting(vars(kernel)[name]))
    proxy.gen_body = _catching(proxy.gen_body, cpp.BracesBuffer)
    group.codegen_group = _raising(group.codegen_group, cpp.BracesBuffer)
    return {}


def _noting(write_check: Callable[..., Any]) -> Callable[..., Any]:
    """A method that writes a check; the kernel remembers that its body may throw."""

    @functools.wraps(write_check)
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.framelift_throws = True
        return write_check(self, *args, **kwargs)

    return noting


def _catching(gen_body: Callable[..., Any], buffer: type[Any]) -> Callable[..., Any]:
    """The method that writes the innermost body of the loops of a kernel."""

    @functools.wraps(gen_body)
    def catching(self: Any, code: Any = None) -> Any:
        group: Any = getattr(self, "kernel_group", None)
        if code is None or not hasattr(group, "loops_code"):
            return gen_body(self, code)
        throws = any(getattr(kernel, "framelift_throws", False) for kernel in self.kernels)
        if throws:
            group.framelift_throws = True
        elif not getattr(group, "framelift_throws", False):
            return gen_body(self, code)
        body = buffer()
        gen_body(self, body)
        code.writeline(_SKIP)  # what the bodies before should have written may be missing
        with code.indent():
            code.writeline("try" if throws else "")
            with code.indent():
                code.splice(body)
            code.writeline(_CATCH if throws else "")
        return None

    return catching


def _raising(codegen_group: Callable[..., Any], buffer: type[Any]) -> Callable[..., Any]:
    """The method that writes the function of a kernel around its loops."""

    @functools.wraps(codegen_group)
    def raising(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "framelift_throws", False):
            self.stack.close()  # parallel regions end here
            code = buffer()
            code.writelines(_DECLARE)
            code.splice(self.loops_code)
            code.writeline(_RAISE)
            self.loops_code = code
            self.framelift_throws = False  # done
        return codegen_group(self, *args, **kwargs)

    return raising
