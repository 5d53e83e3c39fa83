"""Capture for engines: one graph of an example call, as a record that is saved, loaded and run without the program.

The contract has a version (`CONTRACT`), and its page is docs/howto/engines.md.  It is a thin record over what
`compile` captures and packages keep; nothing else imports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..backends.registry import lookup, used_by_drivers
from ..capture.records.captures import innermost_compiled
from ..exc import IncorrectUsage, PackageError, WrongValue
from ..guards.sentences import described, path
from ..packages.aot import opened, package_bytes
from ..packages.captured import Captured, captures_of
from ..packages.container import read_file, write_file
from ..packages.functions import function_data
from ..packages.loading import Loader, locals_of
from ..packages.recording import capture_calls, captured_of
from .capturing import Slot, refuse_others
from .compiling import compile
from .dynamic_shapes import mark_dynamic, mark_unbacked

#: the version of what a `CapturedGraph` offers, and of what `save` writes
CONTRACT = 1
#: kinds of guards that a capture keeps; None: all
_KINDS: dict[str, tuple[str, ...] | None] = {"all": None, "shapes": ("TENSOR", "SHAPE_ENV"), "none": ()}


@dataclass(frozen=True, slots=True)
class GuardRow:
    """One guard: what is looked at, how, and what it has to be."""

    place: str
    kind: str
    value: Any


@dataclass(frozen=True, slots=True)
class InputRow:
    """One placeholder of the graph.

    `place` is where its value comes from in a call (`args[0]`, `self.layers[0].weight`), `example` the value that the
    graph was captured with.
    """

    name: str
    place: str
    example: Any


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One operation of the graph: the user's lines, the modules being called (outermost first), and a fake result."""

    name: str
    target: Any
    stack: str
    modules: tuple[str, ...]
    example: Any


class CapturedGraph:
    """One captured call.

    `graph_module` is None where the call has no tensor operation.

    >>> import torch, framelift
    >>> found = framelift.capture(lambda x: {"y": x + 1}, torch.ones(4), dynamic=True, guards="none")
    >>> [row.name for row in found.nodes], found.callable()(torch.zeros(0)), found.contract
    (['add'], {'y': tensor([])}, 1)
    """

    contract = CONTRACT

    def __init__(
        self, native: _core.Compiled, slot: Slot, kept: str, captured: Callable[[], Captured], modules: Any = None
    ) -> None:
        self._native, self._slot, self._captured, self._modules = native, slot, captured, modules
        self.guards_kept = kept
        (self._entry,) = native.entries
        self.graph_module, self.example_inputs = slot.graph_module, slot.example_inputs

    @property
    def source(self) -> str:
        """The Python that runs around the graph."""
        return str(self._entry.info.source)

    @property
    def guards(self) -> list[GuardRow]:
        """What a call is checked for, in the order of the checks; without what only the entry's source checks."""
        program = self._entry.info.explain
        rows = ((path(program, node), checks) for node, checks in described(program)) if program is not None else ()
        return [GuardRow(place, kind, value) for place, checks in rows for kind, value in checks]

    @property
    def inputs(self) -> list[InputRow]:
        """The placeholders, in order."""
        if self.graph_module is None:
            return []
        names = [node.name for node in self.graph_module.graph.nodes if node.op == "placeholder"]
        tensors = iter(self._entry.info.places[0])  # of the entry: those of the graph first
        places = [str(next(tensors, "")) if isinstance(one, torch.Tensor) else str(one) for one in self.example_inputs]
        return [InputRow(*row) for row in zip(names, places, self.example_inputs, strict=True)]

    @property
    def nodes(self) -> list[NodeRow]:
        """The operations, in order."""
        if self.graph_module is None:
            return []
        found = [node for node in self.graph_module.graph.nodes if node.op.startswith("call_")]
        modules = self._modules  # of a loaded capture; files of captures do not have them on the nodes
        if modules is None:
            stacks = [node.meta.get("nn_module_stack") or {} for node in found]
            modules = [[str(place) for place, _ in stack.values()] for stack in stacks]
        return [
            NodeRow(
                node.name, node.target, node.meta.get("stack_trace", ""), tuple(row), node.meta.get("example_value")
            )
            for node, row in zip(found, modules, strict=True)
        ]

    def callable(self, compiled: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """A callable with the signature of what was captured.

        It runs `compiled` in place of the graph; by default the graph itself.  A call that a kept guard is not for
        raises, and nothing is captured again.
        """
        if compiled is not None:
            self._slot.compiled = compiled
        self._native.miss = refuse_others
        return self._native

    def save(self, file: str | os.PathLike[str], *, key: Any = None) -> None:
        """Write it as data: graph, guards, and the Python around the graph; without weights, examples, and what
        `compiled` was.  `key` signs the file, as for packages.
        """
        captured, kinds = self._captured(), _KINDS[self.guards_kept]
        if kinds is not None:
            rows = [row for row in captured.record["guards"] if row[1] in kinds]
            captured = Captured({**captured.record, "guards": rows, "distinct": []}, captured.work)
        modules = [row.modules for row in self.nodes]
        more = {"contract": CONTRACT, "guards": self.guards_kept, "modules": modules}
        function = function_data(self._native.function)
        codes = self._entry.info.codes
        backend = used_by_drivers(lookup("eager"), False)
        write_file(file, package_bytes("capture", function, [captured], backend, codes, key, manifest=more))


def capture(
    fn: Any,
    *examples: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: bool | Mapping[int | str, int | Iterable[int]] | None = None,
    guards: str = "all",
    unbacked: Mapping[int | str, int | Iterable[int]] | None = None,
) -> CapturedGraph:
    """Capture one call of a function or module as one graph, without running it.

    Args:
        examples, kwargs: the arguments of an example call.
        dynamic: as in `compile`; or dimensions that change, by the position or name of their argument.
        guards: what calls are checked for: "all"; "shapes" for the tensors that were read and the relations of their
            sizes; "none", where the caller vouches for everything: then one graph serves all sizes, 0 and 1 included.
        unbacked: dimensions of which the graph may assume nothing, by the position or name of their argument.

    Raises `framelift.exc.Unsupported` where there is a graph break, and what the call itself would raise.

    >>> import torch, framelift
    >>> found = framelift.capture(torch.nn.Linear(2, 1), torch.ones(3, 2), dynamic={0: 0})
    >>> [row.place for row in found.inputs][1:], found.callable()(torch.ones(5, 2)).shape
    (['args[0]', "self.__dict__['_parameters']['weight']", "self.__dict__['_parameters']['bias']"], torch.Size([5, 1]))
    """
    named = dict(kwargs or {})
    is_flag = dynamic is None or isinstance(dynamic, bool)
    native, slot = _prepared(fn, guards, dynamic if is_flag else None)
    marks = [(mark_dynamic, {} if is_flag else dynamic), (mark_unbacked, unbacked or {})]
    tensors = {id(one): one for one in (*examples, *named.values()) if isinstance(one, torch.Tensor)}
    before = {key: dict(one.__dict__) for key, one in tensors.items()}
    try:
        for mark, asked in marks:
            for place, dims in asked.items():  # type: ignore[union-attr]  # a flag has none
                mark(named[place] if isinstance(place, str) else examples[place], dims)
        made = capture_calls(native, native.bound, native.receiver, [(examples, named, ())])
    finally:
        for key, one in tensors.items():
            one.__dict__.clear()
            one.__dict__.update(before[key])
    (entry,) = made.entries
    return CapturedGraph(made, slot, guards, lambda: captured_of(entry))


def load_capture(
    file: str | os.PathLike[str],
    fn: Any,
    *examples: Any,
    kwargs: Mapping[str, Any] | None = None,
    key: Any = None,
    trust: bool = False,
) -> CapturedGraph:
    """Load what `CapturedGraph.save` wrote, for the same function or module; nothing is rehearsed.

    `examples` and `kwargs` are the arguments of any call that the capture is for: its inputs are found by them.  `key`
    and `trust` as for packages.

    >>> import tempfile, torch, framelift
    >>> relu, x, key = torch.nn.ReLU(), -torch.ones(2), b"a key of 16 bytes"
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     framelift.capture(relu, x, dynamic=True).save(file.name, key=key)
    ...     framelift.load_capture(file.name, relu, x, key=key).callable()(-torch.ones(3))
    tensor([0., 0., 0.])
    """
    found = opened(read_file(file), "capture", key, trust)
    if found.manifest.get("contract") != CONTRACT:
        raise PackageError(
            f"the capture is of contract {found.manifest.get('contract')}; this framelift has {CONTRACT}"
        )
    kept = found.manifest["guards"]
    native, slot = _prepared(fn, kept, None)
    (captured,) = captures_of(found)
    loader = Loader([captured], native.miss.backend, native.miss.name, IncorrectUsage)
    made = _core.Compiled(native.function, loader, native.bound, None, native.receiver)
    loader.unchecked(made, locals_of(made, examples, dict(kwargs or {})))
    return CapturedGraph(made, slot, kept, lambda: captured, found.manifest["modules"])


def _prepared(fn: Any, guards: str, dynamic: Any) -> tuple[_core.Compiled, Slot]:
    """A compiled callable that has captured nothing yet, and the slot that its graph goes to."""
    if guards not in _KINDS:
        raise WrongValue(f'guards is "all", "shapes" or "none", not {guards!r}')
    slot, kinds = Slot(), _KINDS[guards]

    def kept(rows: list[Any]) -> list[bool]:
        return [kinds is None or bool({row.guard_type, *row.derived_guard_types} & {*kinds}) for row in rows]

    asked: dict[str, Any] = {"backend": slot.backend, "fullgraph": True, "dynamic": dynamic}
    return innermost_compiled(compile(fn, guard_filter_fn=None if kinds is None else kept, **asked)), slot
