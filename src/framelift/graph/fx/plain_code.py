"""The Python code of a graph of the usual kind: the text that torch's own generator writes, in a third of its time.

What is not plain (types, defaults, modules that are called, values of unusual types) is left to torch's generator, and
so is code that is made for people to read.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.fx import graph as fx
from torch.fx.immutable_collections import immutable_list
from torch.fx.node import Node

from ...torch_ports.graphs import get_qualified_name


class _Unusual(Exception):
    """Torch's generator is asked."""


#: values whose `repr` is an expression for them, with the globals of generated code
_VALUES = frozenset(
    {
        *(int, float, bool, str, type(None), type(Ellipsis)),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    }
)


def _text(value: Any) -> str:
    kind = type(value)
    if kind is Node:
        return value.name
    if kind in _VALUES:
        return repr(value)
    if kind is tuple or kind is torch.Size:
        inside = ", ".join([_text(one) for one in value])
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if kind is immutable_list or kind is list:
        return "[" + ", ".join([_text(one) for one in value]) + "]"
    if kind is slice:
        return f"slice({_text(value.start)}, {_text(value.stop)}, {_text(value.step)})"
    raise _Unusual


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    texts = [_text(value) for value in args]
    if kwargs:
        texts += [f"{name} = {_text(value)}" for name, value in kwargs.items()]
    return ", ".join(texts)


def _writer(function: Any) -> Callable[[Node], str] | None:
    """How a call of a function is written, with the assignment to the node's name; None: by torch's generator."""
    is_operator = function is getattr or getattr(function, "__module__", None) == "_operator"
    return _known_writer(function) if is_operator or fx._is_from_torch(function) else None


@functools.cache
def _known_writer(function: Any) -> Callable[[Node], str] | None:
    if function is getattr:
        return _attribute
    if getattr(function, "__module__", None) == "_operator":
        name = function.__name__
        if name in fx.magic_methods:
            sign = fx.magic_methods[name]
            return lambda node: f"{node.name} = {sign.format(*[_text(value) for value in node.args])}"
        if name in fx.inplace_methods:
            sign = fx.inplace_methods[name]
            return lambda node: (
                f"{sign.format(*[_text(value) for value in node.args])};  {node.name} = {_text(node.args[0])}"
            )
        return None
    if function is torch.device:
        return None
    called = get_qualified_name(function)
    return lambda node: f"{node.name} = {called}({_arguments(node.args, node.kwargs)})"


def _attribute(node: Node) -> str:
    if len(node.args) != 2 or type(node.args[1]) is not str or not node.args[1].isidentifier():
        raise _Unusual
    return f"{node.name} = {_text(node.args[0])}.{node.args[1]}"


def _line(node: Node) -> str:
    if node.op == "call_function":
        write = _writer(node.target)
        if write is None or node.meta.get("is_wrapped"):
            raise _Unusual
        return write(node)
    target = node.target
    if node.op == "output":
        return f"return {_text(node.args[0])}"
    if node.op == "call_method" and type(node.args[0]) is Node and str(target).isidentifier():
        return f"{node.name} = {node.args[0].name}.{target}({_arguments(node.args[1:], node.kwargs)})"
    if node.op == "get_attr" and all(part.isidentifier() for part in str(target).split(".")):
        return f"{node.name} = self.{target}"
    raise _Unusual


@functools.cache
def _nothing() -> fx.PythonCode:
    """The code of no nodes: what names stand for in all code."""
    return fx.CodeGen()._gen_python_code([], "self", fx._Namespace())


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """Node -> the values that nobody needs after it."""
    found: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    for node in reversed(nodes):
        for value in node._input_nodes:
            if value not in seen:
                seen.add(value)
                found.setdefault(node, []).append(value)
    return found


class PlainCode(fx.CodeGen):
    """A code generator for graphs."""

    def _gen_python_code(self, nodes: Iterable[Node], root_module: str, namespace: Any, **options: Any) -> Any:
        if not any(options.values()) and root_module == "self" and self._body_transformer is None:
            try:
                return self._plain(list(nodes))
            except _Unusual:
                pass
        return super()._gen_python_code(nodes, root_module, namespace, **options)

    def _plain(self, nodes: list[Node]) -> fx.PythonCode:
        taken = {*_nothing().globals, "self", "getattr"}
        for node in nodes:
            name = node.name
            if name in taken or name in fx._illegal_names or not (name.isascii() and name.isidentifier()):
                raise _Unusual
            taken.add(name)
            if node.type is not None:
                raise _Unusual
        free, lines, made_by = [], [], []
        unneeded = _last_uses(nodes)
        for index, node in enumerate(nodes):
            if node.op == "placeholder":
                target = str(node.target)
                if node.args or not (target.isascii() and target.isidentifier()):
                    raise _Unusual
                free.append(target)
                if target == node.name:
                    continue
                line = f"{node.name} = {target}"
            else:
                line = _line(node)
                if node.op != "output":
                    ends = unneeded.get(node, [])
                    if not node.users:
                        ends = [*ends, node]
                    if ends:
                        line += ";  " + " = ".join([value.name for value in ends]) + " = None"
            lines.append(line)
            made_by.append(index)
        if not nodes or nodes[-1].op != "output":
            raise _Unusual
        head = self.gen_fn_def(free, "")
        body = "\n".join([f"    {line}" for line in lines])
        globals_ = dict(_nothing().globals)
        if any(node.target is getattr for node in nodes):
            globals_["getattr"] = getattr
        return dataclasses.replace(
            _nothing(),
            src=f"\n\n\n{head}\n{body}\n    ",
            globals=globals_,
            _lineno_map=dict(enumerate([*made_by, made_by[-1]], 1)),
        )

    def __reduce__(self) -> Any:
        """Copies, and graphs that are written to files, have torch's own."""
        return fx.CodeGen, (), self.__dict__
