"""How to rehearse, and the recorder's fields that belong together: callbacks, what was done with gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from ..boundary.dynamism import STATIC, Dynamism
from ..graph.fx.values import Value

Record = TypeVar("Record")


@dataclass(slots=True)
class Callbacks:
    """Functions of the session that the recorder calls; None where there is no session, or it has none."""

    grad_of: Callable[[torch.Tensor], Any] | None = None  # imports an input's .grad
    ask: Callable[[torch.Tensor, Callable[[torch.Tensor], Any]], Any] | None = None  # imports a fact of an input
    switch: Callable[[torch.Tensor, Any], None] | None = None  # switches requires_grad of an input
    guard_text: Callable[[], None] | None = None  # guards how tensors are printed
    dispatch: Callable[..., Any] | None = None  # calls the innermost of the program's torch-function modes
    answer: Callable[..., bool | None] | None = None  # a relation, by what tensors hold
    # in place of assuming; set where graphs have no checks (export)
    assume_otherwise: Callable[[torch.Tensor, bool], bool] | None = None


@dataclass(slots=True)
class Habits:
    """Known habits of a backend with graphs."""

    runs_as_is: bool = False  # they are run as they are, operation by operation, by torch itself
    is_supposed: bool = False  # nobody said so: what it gives back will tell
    keeps_memory: bool = False  # it never writes into memory of a result of a node


def changed(record: Record, **fields: Any) -> Record:
    """A copy of a frozen record with other fields, as `dataclasses.replace` makes it, in a tenth of its time."""
    made = object.__new__(type(record))
    made.__dict__.update(record.__dict__, **fields)
    return made


@dataclass(frozen=True)
class Policy:
    """How to rehearse, decided before the program begins: another policy is another rehearsal."""

    dynamism: Dynamism = STATIC  # which numbers and sizes are symbolic
    fullgraph: bool = False  # a graph break is an error: what can be captured at a price should be
    guesses: bool = True  # what small external tensors hold may be guarded, and so be known
    guards_values: bool = False  # a value taken from few integers outside is guarded before the graph is to compute it
    unread: frozenset[str] = frozenset()  # the root's parameters that are only handed over
    habits: Habits = field(default_factory=Habits)  # of the backend
    unrolls: bool = False  # it writes out every step of a recurrent network
    described: bool = False  # it may read what nodes belong to
    takes_fakes: bool = False  # external fakes are taken for what they stand for (export)
    keeps_all: bool = False  # operations that give back what they are given have their nodes, too (export)
    exporting: bool = False  # the graph is to be a program without Python
    keep_functions: bool = False  # autograd functions are nodes, whoever asks for gradients


@dataclass(slots=True)
class Assumptions:
    """What the graph takes for granted, and looks at when it runs."""

    any: bool = False  # also what the graph looks at on the way
    assumed: bool = False  # the graph asserts what was assumed of numbers
    undoes: bool = False  # inputs are written to by the time that an assumption may be found wrong
    violated: dict[torch.device, torch.Tensor] = field(default_factory=dict)  # true where an assumption was wrong


@dataclass(slots=True)
class Gradients:
    """The program's operations so far that concern gradients."""

    differentiated: bool = False  # it went through histories, and did not keep them
    exchanged: bool = False  # a leaf got other memory (tensor_writes.py)
    differentiable: bool = False  # or kept them, to go through the way back too
    #: by id of the real tensor whose requires_grad was switched: what it is with each flag
    flagged: dict[int, dict[bool, Value]] = field(default_factory=dict)
    #: external tensors to whose gradients a backward of the program's adds
    reached: list[torch.Tensor] = field(default_factory=list)
    #: whose history the program looked at last, and what gives what stands for it, while the program holds that
    history: tuple[Any, Callable[[], Any]] | None = None
