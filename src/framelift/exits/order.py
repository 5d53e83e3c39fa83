"""From recipes to statements: what is named, what stands inline, and in which order things are made.

Components of the graph of nodes come children first.  In a component with a cycle every object that has a shell is made
empty, the others are made from those, and then the shells are filled.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..vocabulary.reasons import Interrupt
from .recipe import Node, Text, type_name

#: expressions nested deeper than this are given a name
_DEEP = 8


def statements(roots: Iterable[Text]) -> tuple[list[str], list[str]]:
    """The statements that build every node the roots mention, and the roots' own text."""
    roots = list(roots)
    writer = _Writer()
    for component in _components(roots):
        writer.build(component)
    return writer.lines, [_text(root) for root in roots]


def _text(text: Text) -> str:
    return "".join([part.text if type(part) is Node else part for part in text])


def _components(roots: list[Text]) -> list[list[Node]]:
    """Tarjan's strongly connected components, children first, without recursion."""
    found: list[list[Node]] = []
    stack: list[Node] = []
    count = 0
    for start in (part for text in roots for part in text if type(part) is Node):
        if start.number >= 0:
            continue
        start.number = start.low = count
        count += 1
        stack.append(start)
        path = [(start, iter(start.recipe.children(start)))]
        while path:
            node, children = path[-1]
            for child in children:
                if child.number < 0:
                    child.number = child.low = count
                    count += 1
                    stack.append(child)
                    path.append((child, iter(child.recipe.children(child))))
                    break
                if child.component < 0:
                    node.low = min(node.low, child.number)
            else:
                path.pop()
                if path:
                    path[-1][0].low = min(path[-1][0].low, node.low)
                if node.low == node.number:
                    found.append(_cut(stack, node, len(found)))
    return found


def _cut(stack: list[Node], head: Node, number: int) -> list[Node]:
    component: list[Node] = []
    while head.component < 0:
        node = stack.pop()
        node.component = number
        component.append(node)
    return component[::-1]


class _Writer:
    """Gives every node its text and collects the statements needed for it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def build(self, component: list[Node]) -> None:
        node = component[0]
        if len(component) > 1 or (node.recipe.make is not None and node in node.recipe.make):
            self._cycle(component)
            return
        make = node.recipe.make
        if make is None:
            self._make(node)
            self._fill(node)
            return
        node.depth = 1 + max((part.depth for part in make if type(part) is Node), default=0)
        if node.uses == 1 and node.depth <= _DEEP:
            node.text = _text(make)
        else:
            self._name(node, make)

    def _cycle(self, component: list[Node]) -> None:
        inside = set(map(id, component))
        for node in component:
            if any(id(part) in inside for part in node.recipe.complete_first):
                raise Interrupt("result-object", f"{type_name(type(node.obj))} that is part of its own keys")
        waiting = component
        while waiting:
            unmade = set(map(id, waiting))
            later = [node for node in waiting if any(id(part) in unmade for part in _first(node))]
            if len(later) == len(waiting):
                raise Interrupt("result-object", f"{type_name(type(waiting[0].obj))} that contains itself")
            late = set(map(id, later))
            for node in waiting:
                if id(node) not in late:
                    self._make(node)
            waiting = later
        for node in component:
            if node.recipe.shell is not None:
                self._fill(node)

    def _make(self, node: Node) -> None:
        if node.recipe.interior:
            node.text = _text(_first(node))
        else:
            self._name(node, _first(node))

    def _name(self, node: Node, text: Text) -> None:
        made = _text(text)
        node.text, node.depth = f"v{self._count}", 0
        self._count += 1
        self.lines.append(f"{node.text} = {made}")

    def _fill(self, node: Node) -> None:
        self.lines += [_text(fill) for fill in node.recipe.fills]


def _first(node: Node) -> Text:
    """Return the text that has to be written before the node can be referred to."""
    text = node.recipe.shell if node.recipe.shell is not None else node.recipe.make
    assert text is not None
    return text
