"""The graph of torch's own functions: placeholders for the leaves of the call, attributes for all other tensors."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..graph.fx.placeholder_names import source_name
from ..graph.symbols.meanings import FromNumber, FromSize
from ..graph.symbols.numbers import NUMBERS
from ..torch_ports.autograd import set_grad_enabled
from ..vocabulary.plain_types import GIVEN
from ..vocabulary.reasons import Interrupt
from .inputs import Call, ExportDynamism, is_fake
from .shape_relations import Relied, relied_on
from .strict_session import refuse, rehearse_call

if TYPE_CHECKING:
    from ..recording.finished import Finished
    from ..rehearsal.session import Rehearsal


#: what is external to a graph, beside numbers


@dataclass(frozen=True, eq=False)
class ExportedCall:
    """An exported call at the level of torch's functions.

    `graph_module` takes the call's leaves in order and gives `leaves`, in a tuple; `spec` is the result's
    structure.  `relied` are relations between sizes and numbers, `guards` what else was read from outside, in
    words.
    """

    graph_module: torch.fx.GraphModule
    spec: Any
    relied: Relied
    guards: list[str] = field(default_factory=list)
    operations: int = 0


def capture(
    call: Call, dynamism: ExportDynamism, keep_functions: bool = False, made_as: Any = torch.fx.GraphModule
) -> ExportedCall:
    """Rehearse the call and build its graph, a `made_as`.

    `keep_functions`: autograd functions are nodes also where this call tracks no gradients.
    """
    session, exit_ = rehearse_call(call.root, call.args, call.kwargs, dynamism, is_fake(call), keep_functions)
    try:
        recorder = session.recorder
        changed = [new for _, new in exit_.assigned]
        asked = [leaf for leaf in exit_.leaves if recorder.is_stand_in(leaf) or type(leaf) in NUMBERS]
        finished = recorder.finish([*asked, *changed])
        builder = _ExportBuilder(call, session, finished, made_as)
        module = builder.build(exit_, len(asked))
        relied = relied_on(recorder.symbols, call) if recorder.symbols is not None else Relied({})
        return ExportedCall(module, exit_.spec, relied, [str(guard) for guard in session.guards], finished.n_ops)
    except Interrupt as stop:  # the rehearsal went through, but not all of it has a form in a graph
        refuse(stop, session, getattr(call.root, "__qualname__", type(call.root).__qualname__))
        raise
    finally:
        session.close()


#: the root of the rehearsal, which is no part of the program
_ROOT = re.compile(r'^\s*File "<export>".*\n(?!\s*File).*\n')


def _layer(meta: dict[str, Any]) -> type | None:
    """Return the class of torch's own innermost module that a node belongs to: tools find layers by it."""
    _, name = next(reversed((meta.get("nn_module_stack") or {"": ("", "")}).values()))
    module, _, cls = name.rpartition(".")
    return getattr(sys.modules.get(module), cls, None) if module.startswith("torch.nn.") else None


def _strip(node: torch.fx.Node) -> None:
    if "stack_trace" in node.meta:
        node.meta["stack_trace"] = _ROOT.sub("", node.meta["stack_trace"])


class _ExportBuilder:
    """Rewrites a recorder's graph: its inputs become placeholders of the call, attributes, or sizes of these."""

    def __init__(self, call: Call, session: Rehearsal, finished: Finished, made_as: Any) -> None:
        self.made_as = made_as
        self.call, self.session, self.finished = call, session, finished
        self.graph = torch.fx.Graph()
        self.attributes: dict[str, Any] = {}
        self._nodes: dict[int, Any] = {}  # id of a real tensor -> node
        self._names = state_names(call.root)
        self._first = {id(leaf): i for i, leaf in reversed(list(enumerate(call.leaves))) if isinstance(leaf, GIVEN)}
        self._placeholders: list[Any] = []
        self._sizes: list[Any] = []

    def build(self, exit_: Any, count: int) -> torch.fx.GraphModule:
        old = self.finished.graph_module
        taken = {node.name for node in old.graph.nodes if node.op != "placeholder"}
        for i in range(len(self.call.leaves)):
            self._placeholders.append(self.graph.placeholder(f"arg{i}" if f"arg{i}" not in taken else f"arg{i}_"))
        env: dict[Any, Any] = {}
        inputs = self.finished.arguments if self.finished.arguments is not None else self.finished.inputs
        for node, given in zip(old.graph.find_nodes(op="placeholder"), inputs):
            env[node] = self._object(given) if isinstance(given, GIVEN) else self._number(given)
        if self.finished.without_grad:
            self.graph.call_function(set_grad_enabled, (False,))
        results: tuple[Any, ...] = ()
        for node in old.graph.nodes:
            if node.op == "output":
                results = tuple(env[a] if isinstance(a, torch.fx.Node) else a for a in node.args[0])
            elif node.op != "placeholder":
                env[node] = self.graph.node_copy(node, lambda n: env[n])
                env[node].meta["source_fn_stack"] = [(node.name, _layer(node.meta) or node.target)]
                _strip(env[node])
        for (real, _), new in zip(exit_.assigned, results[count:]):
            self.graph.call_method("copy_", (self._object(real), new))
        if self.finished.without_grad:
            self.graph.call_function(set_grad_enabled, (True,))
        given = iter(results)
        recorder = self.session.recorder
        self.graph.output(
            tuple(next(given) if recorder.is_stand_in(leaf) or type(leaf) in NUMBERS else leaf for leaf in exit_.leaves)
        )
        for node in self._sizes:
            if not node.users:
                self.graph.erase_node(node)
        if isinstance(self.call.root, torch.nn.Module):
            _fill_stacks(self.graph, type(self.call.root))
        return self._module(old)

    def _object(self, tensor: Any) -> Any:
        """The node of an external tensor, or of another object that graphs are given."""
        node = self._nodes.get(id(tensor))
        if node is None:
            if id(tensor) in self._first:
                node = self._placeholders[self._first[id(tensor)]]
            else:
                name = self._names.get(id(tensor)) or self._new_name(tensor)
                self.attributes[name] = tensor
                last = self._placeholders[-1] if self._placeholders else self.graph._root
                with self.graph.inserting_after(self._attributes_end(last)):
                    node = self.graph.create_node("get_attr", name)
            self._nodes[id(tensor)] = node
        return node

    def _attributes_end(self, node: Any) -> Any:
        while node.next.op == "get_attr":
            node = node.next
        return node

    def _new_name(self, tensor: Any) -> str:
        """For a tensor from outside of the call and its module."""
        record = self.session.record_of_original(tensor)
        stem = source_name(record.origin).strip("_") if record is not None else "_tensor_constant"
        name, count = stem, 0
        while name in self.attributes:
            count += 1
            name = f"{stem}_{count}"
        return name

    def _number(self, given: Any) -> Any:
        """A symbolic number that is an input of the recorder's graph: here a size of a tensor, or a placeholder."""
        meaning = self.session.with_symbols().meanings[given if isinstance(given, str) else given.name]
        if type(meaning) is FromSize:
            self._sizes.append(self.graph.call_method(meaning.what, (self._object(meaning.tensor), meaning.dim)))
            return self._sizes[-1]
        assert type(meaning) is FromNumber
        return self._placeholders[self.call.places.index(meaning.place)]

    def _module(self, old: torch.fx.GraphModule) -> torch.fx.GraphModule:
        bodies = dict(old.named_children())
        root = torch.nn.Module()
        for name, child in bodies.items():
            root.add_module(name, child)
        for name, tensor in self.attributes.items():
            put(root, name, tensor)
        made: torch.fx.GraphModule = self.made_as(root, self.graph)
        # copied in the graph's order, tensors as buffers
        for table in (made._modules, made._parameters, made._buffers):
            table.clear()
        put_state(made, self.call.root)
        known = {id(tensor) for tensor in (*made.parameters(), *made.buffers())}
        for name, tensor in self.attributes.items():
            if id(tensor) not in known:
                put(made, name, tensor)
        for name, child in bodies.items():
            made.add_module(name, child)
            for part in child.modules():
                for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
                    _strip(node)
        return made


def _fill_stacks(graph: torch.fx.Graph, cls: type) -> None:
    """Nodes that no operation of the program made are in the modules that both of their neighbours are in."""
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    top = {"L__self__": ("", f"{cls.__module__}.{cls.__qualname__}")}
    known = [node.meta.get("nn_module_stack") for node in nodes]
    for i, node in enumerate(nodes):
        if known[i] is None or not known[i]:
            before = next((stack for stack in reversed(known[:i]) if stack), top)
            after = next((stack for stack in known[i + 1 :] if stack), top)
            node.meta["nn_module_stack"] = {key: path for key, path in before.items() if key in after} or top


def called_as(module: torch.fx.GraphModule, call: Call, spec: Any) -> None:
    """Give a graph over the call's leaves the program's signature, and its result this structure."""
    from ..torch_ports.graphs import LazyGraphModule, PyTreeCodeGen, PyTreeInfo

    module.graph._codegen = PyTreeCodeGen(PyTreeInfo(call.names, call.spec, spec))
    module.recompile()
    LazyGraphModule.force_recompile(module)  # its signature is read


def put(root: torch.nn.Module, path: str, tensor: Any, persistent: bool | None = None) -> None:
    """Set the tensor at a dotted path: as a parameter if it is one, as a buffer where `persistent` is given."""
    parents, _, name = path.rpartition(".")
    root = _owner(root, parents)
    root._buffers.pop(name, None)
    if persistent is not None:
        root.__dict__.pop(name, None)
        root.register_buffer(name, tensor, persistent)
    else:
        setattr(root, name, tensor)


def _owner(root: torch.nn.Module, path: str) -> torch.nn.Module:
    """The module at a path, made if it is not there."""
    for name in path.split(".") if path else ():
        if name not in root._modules:
            root.add_module(name, torch.nn.Module())
        root = root._modules[name]
    return root


def put_state(made: torch.nn.Module, root: Any) -> None:
    """All parameters and buffers of a module, used or not, under their own names."""
    if not isinstance(root, torch.nn.Module):
        return
    for path, _ in root.named_modules(remove_duplicate=False):
        _owner(made, path)
    for name, parameter in root.named_parameters(remove_duplicate=False):
        put(made, name, parameter)
    for path, module in root.named_modules(remove_duplicate=False):
        for name, buffer in module._buffers.items():
            if buffer is not None:
                put(made, f"{path}.{name}" if path else name, buffer, name not in module._non_persistent_buffers_set)


def state_names(root: Any) -> dict[int, str]:
    """id -> path of the tensors and other objects of graphs that a module holds; parameters and buffers first."""
    if not isinstance(root, torch.nn.Module):
        return {}
    found: dict[int, str] = {}
    for name, tensor in [*root.named_parameters(remove_duplicate=False), *root.named_buffers(remove_duplicate=False)]:
        found.setdefault(id(tensor), name)
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, GIVEN):
                found.setdefault(id(value), f"{path}.{name}" if path else name)
    return found
