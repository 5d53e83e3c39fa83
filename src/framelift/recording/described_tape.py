"""A tape that knows the modules being called at each step, for backends that ask what a node belongs to."""

from __future__ import annotations

import sys
import types
from typing import Any

from .. import _core
from .._core import code_of, id
from ..bytecode import source_of
from ..graph.fx.named_places import NamedPlaces, module_path
from ..graph.fx.values import Step
from ..torch_ports.tensors import call_impl
from ..vocabulary.class_reads import module_of, qualname_of
from ..vocabulary.code_knowledge import knowledge_of
from ..vocabulary.own_code import beginnings
from .recorder import TapeRecorder
from .session import Session

_CALL = call_impl.__code__


def recorder_for(session: Session, tape: list[Any] | None) -> TapeRecorder:
    """The recorder of a session, on the tape given or on one of the kind that its backend wants."""
    described = tape is None and session.policy.described
    knowledge = knowledge_of(session.function.__code__)
    return TapeRecorder(DescribedTape(session) if described else tape, session.policy, knowledge)


def _shown(cls: type) -> Any:
    """A class that its module holds; another by its name, so that it can go while the graph stays."""
    found: Any = sys.modules.get(module_of(cls))
    for name in qualname_of(cls).split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return cls if found is cls else f"{module_of(cls)}.{qualname_of(cls)}"


class DescribedTape(list[Any]):
    """Steps know the modules that are called; those made inside have no path, and are left out."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.ends = beginnings()
        self.places = NamedPlaces(code_of(session.function))
        self.modules: dict[int, tuple[Any, tuple[str, tuple[str, Any]]]] = {}  # by id, with what keeps the id
        self.classes: dict[int, tuple[type, Any]] = {}  # of modules, by id, and how they are shown
        self.codes: dict[int, tuple[types.CodeType, bool]] = {}  # whether frames of it are calls of modules

    def append(self, step: Step) -> None:
        step.modules = self._stack() or None
        super().append(step)

    def _stack(self) -> dict[str, tuple[str, Any]]:
        """The modules being called, outermost first, as `nn_module_stack` has them."""
        known = _core.named_stack(_CALL.co_qualname, "self", self.ends, self.codes, self.modules)
        return self._new_stack() if known is None else known

    def _new_stack(self) -> dict[str, tuple[str, Any]]:
        found: list[tuple[str, tuple[str, Any]]] = []
        codes, modules = self.codes, self.modules
        for code, module in _core.frames_named(_CALL.co_qualname, "self", self.ends):
            is_call = codes.get(id(code))
            if is_call is None:
                is_call = codes[id(code)] = (code, source_of(code) is _CALL)
            if is_call[1]:
                known = modules.get(id(module)) or self._meet(module)
                if known is not None:
                    found.append(known[1])
        found.reverse()
        return dict(found)

    def _meet(self, module: Any) -> tuple[Any, tuple[str, tuple[str, Any]]] | None:
        """How a module is shown; None for one made inside."""
        record = self.session.record_of_original(module)
        if record is None:
            return None
        path = module_path(record.origin, self.places)
        cls = type(module)
        shown = self.classes.get(id(cls))
        if shown is None:
            shown = self.classes[id(cls)] = (cls, _shown(cls))
        self.modules[id(module)] = record, (str(id(module)), (path, shown[1]))
        return self.modules[id(module)]
