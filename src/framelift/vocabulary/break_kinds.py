"""Kinds of graph breaks, by declared reason: whether the program is wrong, whether it can ever be captured."""

from __future__ import annotations

from .reasons import REASONS

FUNDAMENTAL = "fundamental: only the values of tensors or the world outside decide it, so no tracer can capture it"
USER_ERROR = "user error: the program may be wrong here; run it without torch.compile to see"
ASKED_FOR = "asked for: the program, or a library it uses, says so"
DIFFICULT = "difficult: objects that code outside the graph sees would have to be made or changed"
SUPPORTABLE = "supportable: it could be captured, and is not yet; report it if you meet it often"
FOLLOWS = "caused by an earlier graph break: resolve that one first"

_ROWS = {
    FUNDAMENTAL: "tensor-bool tensor-item tensor-data tensor-repr data-dependent-shape active-mode active-transform",
    USER_ERROR: "torch-operation-failed forbidden body-effect body-shape body-escape constant-argument",
    ASKED_FOR: "disabled disallowed graph-break skip-frame backend-skip",
    DIFFICULT: "result-object generator effect-object caught symbolic-number random-state too-large lazy-module "
    "own-function coroutine",
}
#: reason -> its kind
KINDS: dict[str, str] = dict.fromkeys(REASONS, SUPPORTABLE) | {
    reason: kind for kind, reasons in _ROWS.items() for reason in reasons.split()
}

#: reasons that torch's database of export examples has a page about
_CASES = {
    "tensor-bool": "cond-operands",
    "tensor-item": "constrain-as-size-example",
    "data-dependent-shape": "constrain-as-size-example",
}


def kind_of(reason: str) -> str:
    """One line about a reason.

    >>> kind_of("tensor-bool").partition(":")[0]
    'fundamental'
    """
    return KINDS[reason]


def export_case(reason: str) -> str | None:
    """Where torch shows how to write such a program for export, as its own errors say it; None: nowhere.

    >>> export_case("tensor-bool")
    'https://pytorch.org/docs/main/generated/exportdb/index.html#cond-operands'
    """
    case = _CASES.get(reason)
    return None if case is None else f"https://pytorch.org/docs/main/generated/exportdb/index.html#{case}"
