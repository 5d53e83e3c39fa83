"""One fix per cause of a recompile, a specialization or a refusal: what to change, in one or two sentences.  Breaks
have theirs in `framelift.vocabulary.break_fixes`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..vocabulary.places import is_python


def refusal_fix(why: str) -> str:
    """For a function that is not captured any more."""
    return _REFUSALS[why]


_REFUSALS = {
    "limit": "Remove the causes of the recompiles, or raise `framelift.config.recompile_limit`.",
    "code": "Keep the objects in globals, defaults or closures.",
    "first": "None is needed: later calls are compiled. A call of that function before the first step spares this one.",
    "defect": "This is a defect of framelift: please report it with the file that the warning named.",
}


def specialisation_fix(kind: str, expression: str) -> str:
    """Return the consequence of a change of a constant, and how to avoid it."""
    return _CONSTANTS.get(kind, "Another value recompiles.").format(e=_code(expression))


def _code(expression: str) -> str:
    return f"`{expression}`" if is_python(expression) else "an expression"


_CONSTANTS = {
    "number": "Another value recompiles; a number kept in a tensor does not.",
    "shape": "Another size recompiles; a dimension marked dynamic does not.",
    "length": "Another length recompiles.",
    "fixed": "Each value recompiles, as {e} needs the number itself: work on tensors there instead of a "
    "Python loop, list or branch over "
    "the number.",
    "relation": "A value for which it does not hold recompiles: {e} relies on it.",
}


def settled_fix(kind: str, origin: str) -> str:
    """For a value that is symbolic since it changed: what would have saved that one capture."""
    if kind == "TENSOR":
        return (
            f"Nothing more to do: the sizes of {origin} that changed are symbolic since then, and other "
            f"sizes do not recompile. "
            "`framelift.mark_dynamic` before the first call, or `dynamic=True`, saves this one too."
        )
    return (
        f"Nothing more to do: {origin} is symbolic since then, and other values do not recompile. To save "
        f"this one too, compile with `dynamic=True` "
        "or pass a tensor."
    )


def result_fix(origin: str) -> str:
    """For a value that changes because a break gives a new one at each call."""
    return f"{_code(origin)} is the result of a graph break: fix that break, and this recompile goes away."


def _equal(origin: str, old: str, new: str) -> str:
    if origin.endswith(".training") and {old, new} == {"True", "False"}:
        return "Expected: one graph for training and one for evaluation."
    if _is_number(old) and _is_number(new):
        return (
            f"{origin} is a number that changes: keep it in a tensor (`torch.tensor({new})`) that the "
            f"program updates in place, "
            "or pass a tensor."
        )
    return f"{origin} takes several values: pass the same one each time, or compile one callable per value."


def _tensor(origin: str, old: str, new: str) -> str:
    if "size" in old or "size" in new:
        return (
            f"{origin} comes in several shapes: compile with `dynamic=True`, mark the dimension dynamic, "
            f"or pad to one shape."
        )
    if "requires_grad" in old or "is_leaf" in old:
        return (
            f"{origin} is given with and without autograd history: detach it (`torch.Tensor.detach`), or use one mode "
            f"throughout."
        )
    return (
        f"{origin} is given with other properties ({old} -> {new}): convert it before the call "
        f"(`torch.Tensor.to`, `torch.Tensor.contiguous`)."
    )


_RECOMPILES: dict[str, Callable[[str, str, str], str]] = {
    "EQ": _equal,
    "TENSOR": _tensor,
    "LEN": lambda o, old, new: f"{o} changes its length: keep it at one length, or stack its contents into a tensor.",
    "KEYS": lambda o, old, new: f"{o} changes its keys: create all keys before the first call.",
    "IS": lambda o, old, new: (
        f"{o} is another object at each call: create it once, outside the function that is called."
    ),
    "CODE": lambda o, old, new: f"{o} is a new function at each call: define it once, at module level.",
    "TYPE": lambda o, old, new: f"{o} is given as {old} and as {new}: convert it to one type before the call.",
    "SAME": lambda o, old, new: f"{o} is sometimes the same object as another argument and sometimes not: pass a copy.",
    "RELATION": lambda o, old, new: (
        f"{o or 'A number'} may change, but an expression relies on {old}: work on tensors there instead "
        f"of a Python loop, "
        "list or branch over the number."
    ),
    "state": lambda o, old, new: (
        "Torch's global state (grad mode, autocast, default dtype ...) differs between calls. "
        "Expected: one graph for training and one for evaluation."
    ),
    "distinct": lambda o, old, new: "Two arguments are sometimes the same object: pass a copy of one.",
    "CALL": lambda o, old, new: f"Expected: one graph for calls with {o} and one for calls without.",
    "memory": lambda o, old, new: (
        "The function writes to inputs that share memory in some calls only: pass copies, or always the same views."
    ),
    "hooks": lambda o, old, new: "Register hooks on tensors before the first call.",
    "gone": lambda o, old, new: "An object that the compiled code refers to is gone: create it once and keep it.",
}


#: a guard's kind -> what it is about
_KINDS = {
    "EQ": "value",
    "TENSOR": "tensor's properties",
    "LEN": "length",
    "KEYS": "keys",
    "IS": "object",
    "CODE": "function",
    "TYPE": "type",
    "SAME": "same object",
    "ABSENT": "attribute or key",
    "NO_LOOKUP": "attribute",
    "DUNDERS": "special methods",
    "EMPTY": "closure variable",
    "CHECK": "condition",
    "JOINT": "condition",
    "UNMARKED": "mark",
    "RELATION": "relation of numbers",
    "REACH": "way to the value",
    "state": "torch's state",
    "distinct": "same object",
    "CALL": "arguments given",
    "memory": "shared memory",
    "hooks": "hooks",
    "gone": "object that is gone",
}


def kind_words(kind: str) -> str:
    """Describe in words what a guard of a kind checks."""
    return _KINDS.get(kind, kind.lower())


def recompile_fix(kind: str, origin: str, old: str, new: str) -> str:
    """The fix for a value that made a capture necessary again."""
    if "None" in (old, new):
        return f"Expected: one graph where {origin} is None, and one for other values."
    found = _RECOMPILES.get(kind)
    return found(origin, old, new) if found is not None else f"Keep {origin or 'it'} the same between calls."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
