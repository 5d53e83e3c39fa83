"""Weak proxies of objects made inside: attributes are those of the object, which must be seen to live."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from support import World, check, compiled

X = torch.ones(2)


class Node:
    scale = 2

    def __init__(self, value: int, parent: Any = None) -> None:
        self.value = value
        self.children: list[Any] = []
        if parent is not None:
            self.parent = weakref.proxy(parent)
            parent.children.append(self)

    def scaled(self) -> int:
        return self.value * self.scale


class Sized(Node):
    def __len__(self) -> int:
        return 3


def tree(x: Any) -> Any:
    root = Node(1)
    leaf = Node(3, Node(2, root))
    leaf.parent.parent.value += 4
    leaf.parent.parent.name = "root"
    del leaf.parent.value
    return (
        x * root.value + leaf.parent.parent.scaled(),
        root.name,
        hasattr(leaf.parent, "value"),
        leaf.parent.parent is leaf.parent.parent,
    )


def test_tree() -> None:
    check(tree, X, graphs=None, breaks=None)


def test_what_the_class_holds_is_guarded() -> None:
    def change(number: int, world: World) -> None:
        Node.scale = number + 2

    check(tree, X, calls=3, captures=None, graphs=None, breaks=None, mutate=change, state=[(Node, "scale")])


def dead(x: Any) -> Any:
    proxy = weakref.proxy(Node(1))
    try:
        return x + proxy.value
    except ReferenceError as error:
        return x - 1, str(error)


def let_go(x: Any) -> Any:
    node = Node(1)
    proxy = weakref.proxy(node)
    node = None
    try:
        proxy.value = 3
    except ReferenceError:
        return x + 7
    return x


def kinds(x: Any) -> Any:
    node = Node(1)
    proxy = weakref.proxy(node)
    return (
        x,
        type(proxy) is weakref.ProxyType,
        isinstance(proxy, Node),
        proxy.__class__ is Node,
        weakref.proxy(node) is proxy,
    )


@pytest.mark.parametrize("fn", [dead, let_go, kinds], ids=lambda fn: fn.__name__)
def test_lives_and_deaths(fn: Any) -> None:
    check(fn, X, graphs=None, breaks=None)


def operators(x: Any) -> Any:
    node = Sized(1)
    return x + len(weakref.proxy(node))


def handed_out(x: Any) -> Any:
    node = Node(1)
    return x + 1, node, weakref.proxy(node).value, weakref.proxy(node)


def of_outside(x: Any) -> Any:
    return x + weakref.proxy(OUTSIDE).value


OUTSIDE = Node(5)


@pytest.mark.parametrize("fn", [operators, of_outside], ids=lambda fn: fn.__name__)
def test_left_to_plain_python(fn: Any) -> None:
    check(fn, X, graphs=None, breaks=None)


def test_handed_out() -> None:
    _, node, value, proxy = compiled(handed_out)(X)
    assert type(proxy) is weakref.ProxyType and proxy.value == value == 1 and isinstance(proxy, Node)
    del node
    with pytest.raises(ReferenceError):
        proxy.value  # noqa: B018
