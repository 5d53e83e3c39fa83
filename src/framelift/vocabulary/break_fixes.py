"""One fix per break: what to change in the program.  Tables by callable, by library and by declared reason.

Code in a fix stands between backticks, and is Python.
"""

from __future__ import annotations

from .places import is_python
from .reasons import REASONS

#: reason -> fix; `{e}` is the user's expression.  A reason that is not here is answered with its declared hint.
FIXES: dict[str, str] = {
    "tensor-bool": (
        "Compute both sides and choose with `torch.where({e}, a, b)`, or write the branch as "
        "`torch.cond({e}, f, g, operands)`."
    ),
    "tensor-bool in while": "Loop a fixed number of times and choose with `torch.where({e}, a, b)`, or write the loop "
    "as `torch.while_loop(condition, body, operands)`.",
    "tensor-item": "Keep the value as a tensor instead of `{e}`; where a Python number is needed, let the "
    "graph take it (`framelift.config.capture_scalar_outputs = True`), or take it outside the compiled function.",
    "tensor-repr": (
        "Move the text made by `{e}` outside the compiled function, or show the shape and dtype, which are known."
    ),
    "tensor-data": "Move `{e}` outside the compiled function.",
    "unknown-callable": "Call `{e}` before the compiled function and pass its result in, as a tensor where it is a "
    "number that changes; or do the same with torch or in Python. A function of tensors can be part of the graph: "
    "make it a `torch.library.custom_op`, or mark it with `framelift.allow_in_graph`.",
    "callable-on-handle": "Read the attributes that `{e}` needs in Python and pass those.",
    "opaque-object": (
        "Keep the object of `{e}` outside the compiled function; pass what you need of it as numbers and tensors."
    ),
    "data-dependent-shape": (
        "Avoid the size that depends on values in `{e}`: use a mask (`torch.where`) of the full size, or move it "
        "outside."
    ),
    "disabled": "Remove the mark that keeps `{e}` from being compiled, or call it outside the compiled function.",
}

#: why a callable cannot be part of a graph, for those that read the clock
CLOCK = "depends on the time or the time zone"
#: a callable, or why it cannot be part of a graph, as the break's detail says it -> fix.  Before the reason's own.
CALLABLES: dict[str, str] = {
    "print": "Move `{e}` outside the compiled function. Or let it run after the graph: "
    "`framelift.config.reorderable_logging_functions.add(print)`; or drop it: "
    "`framelift.config.ignore_logging_functions.add(print)`.",
    "warnings.warn": "Move `{e}` outside the compiled function. Or let it run after the graph: "
    "`framelift.config.reorderable_logging_functions.add(warnings.warn)`.",
    "a comparison of a number that only the graph knows": "State before it what holds, as `torch._check({e})` or "
    "`torch._check(not ({e}))`; or write the branch as `torch.cond({e}, f, g, operands)`.",
    CLOCK: "Move `{e}` outside the compiled function: around its calls, to measure them; or before, and pass its "
    "result in as a tensor.",
}
#: a library's file below the expression -> fix; `{f}` is the function of it that the expression calls.  Before all.
LIBRARIES: dict[str, str] = {
    "logging/__init__.py": "Move `{e}` outside the compiled function. Or drop it: "
    "`framelift.config.ignore_logging_functions.add(logging.{f})`."
}


def break_fix(
    reason: str, expression: str, detail: str = "", *, statement: str = "", below: tuple[str, str] = ("", "")
) -> str:
    """The fix for a break at `expression`.

    `detail` names what it is about, `statement` is the first word of its line, `below` are the library's file and
    function that it calls.
    """
    name, _, why = detail.partition(" (")
    file, function = below
    text = (
        LIBRARIES.get(file)
        or CALLABLES.get(name)
        or CALLABLES.get(why.removesuffix(")"))
        or FIXES.get(f"{reason} in {statement}")
        or FIXES.get(reason)
    )
    if text and is_python(expression) and expression:
        return text.format(e=expression, f=function)
    found = REASONS.get(reason)
    return found.hint if found is not None else ""
