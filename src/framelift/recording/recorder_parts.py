"""The recorder's fields that belong together: callbacks of the session, options, what was done with gradients."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from ..graph.fx.values import Value


@dataclass(slots=True)
class Callbacks:
    """Functions of the session that the recorder calls; None where there is no session, or it has none."""

    grad_of: Callable[[torch.Tensor], Any] | None = None  # imports an input's .grad
    ask: Callable[[torch.Tensor, Callable[[torch.Tensor], Any]], Any] | None = None  # imports a fact of an input
    switch: Callable[[torch.Tensor, Any], None] | None = None  # switches requires_grad of an input
    guard_text: Callable[[], None] | None = None  # guards how tensors are printed
    dispatch: Callable[..., Any] | None = None  # calls the innermost of the program's torch-function modes
    answer: Callable[..., bool | None] | None = None  # a relation, by what tensors hold
    stop_assuming: Callable[[], None] | None = None  # called before another rehearsal, which assumes nothing
    stop_choosing: Callable[[], None] | None = None  # likewise, which lets Python choose between tensors
    # in place of assuming; set where graphs have no checks (export)
    assume_otherwise: Callable[[torch.Tensor, bool], bool] | None = None


@dataclass(slots=True)
class Habits:
    """Known habits of a backend with graphs."""

    runs_as_is: bool = False  # they are run as they are, operation by operation, by torch itself
    is_supposed: bool = False  # nobody said so: what it gives back will tell
    keeps_memory: bool = False  # it never writes into memory of a result of a node


@dataclass(slots=True)
class Options:
    """How to record, decided before the program begins."""

    code: CodeType | None = None  # of the root
    assumes: bool = True  # the program may be taken to continue where the other side raises
    pays: bool = False  # a graph break is an error: what can be captured at a price should be
    guards_values: bool = False  # a value taken from few integers outside is guarded before the graph is to compute it
    unrolls: bool = False  # the backend writes out every step of a recurrent network
    habits: Habits = field(default_factory=Habits)  # of the backend
    relied: bool = False  # captured code depends on what is supposed of the backend
    takes_fakes: bool = False  # external fakes are taken for what they stand for (export)
    keeps_all: bool = False  # operations that give back what they are given have their nodes, too (export)
    lazy: bool = False  # comparisons of symbols are decided when their truth is asked for

    @property
    def is_plain(self) -> bool:
        """True if the graph will be run as it is, by torch itself."""
        self.relied = self.relied or self.habits.is_supposed
        return self.habits.runs_as_is


@dataclass(slots=True)
class Gradients:
    """The program's operations so far that concern gradients."""

    differentiated: bool = False  # it went through histories, and did not keep them
    differentiable: bool = False  # or kept them, to go through the way back too
    has_module_hooks: bool = False  # modules with full backward hooks were called
    #: by id of the real tensor whose requires_grad was switched: what it is with each flag
    flagged: dict[int, dict[bool, Value]] = field(default_factory=dict)
    #: results that keep their gradients (retained_gradients.py)
    retained: dict[Value, tuple[int, bool]] = field(default_factory=dict)
    #: regions with hooks on saved tensors that captured code is in
    saving: list[Any] = field(default_factory=list)
    #: external tensors to whose gradients a backward of the program's adds
    reached: list[torch.Tensor] = field(default_factory=list)
    #: whose history the program looked at last, and a reference to what stands for it
    history: tuple[Any, weakref.ref[Any]] | None = None
