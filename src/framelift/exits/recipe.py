"""Recipes: how to rebuild one value at an exit, as text with holes, and the walk that makes them from real objects.

A recipe is found by the exact type of the value (`exact`), else by the first class of its MRO that has one
(`base`).  What the values of one type need is said in the rule files (leaves, containers, instances, callables,
iterators); in which order recipes become statements is said in order.py.
"""

from __future__ import annotations

import builtins
import enum
import keyword
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, final

from .._core import id, is_a
from ..guards.kinds import class_name
from ..guards.sentences import name_of
from ..vocabulary.class_reads import members_of, mro_of, qualname_of
from ..vocabulary.origins import Origin
from ..vocabulary.reasons import Interrupt
from .scene import Scene


@final
class Node:
    """One internal object that has to be rebuilt.  `text` is the expression for it, once order.py has decided."""

    __slots__ = ("component", "depth", "low", "number", "obj", "recipe", "text", "uses")

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.uses = 0
        self.depth = 0
        self.number = self.low = self.component = -1
        self.text = ""
        self.recipe: Recipe = _UNKNOWN


#: source text whose holes are the nodes to be filled in
Text = tuple["str | Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """How one object is rebuilt: by `make` in one expression, or by `shell` and then the statements of `fills`.

    Only objects with a shell can be part of a cycle.  `interior`: the shell is a plain read of another object's
    part, and is repeated where it is needed instead of being named.  `parts`: such objects, rebuilt along with
    this one.  `complete_first`: nodes that must be complete, not only made, before.
    """

    make: Text | None = None
    shell: Text | None = None
    fills: tuple[Text, ...] = ()
    interior: bool = False
    parts: tuple[Node, ...] = ()
    complete_first: tuple[Node, ...] = ()

    def children(self, of: Node) -> list[Node]:
        """The nodes this recipe mentions, `of` itself only where it contains itself."""
        if self.make is not None:
            return [part for part in self.make if type(part) is Node]
        assert self.shell is not None
        texts = (self.shell, *self.fills, self.parts)
        return [part for text in texts for part in text if type(part) is Node and part is not of]


_UNKNOWN = Recipe()

#: immutable values without identity: type -> their text
LEAVES: dict[type, Callable[[Walk, Any], str | Node]] = {}
#: rules for values of exactly this type
EXACT: dict[type, Callable[[Walk, Node], Recipe]] = {}
#: rules for values whose class derives from this type
BASE: dict[type, Callable[[Walk, Node], Recipe]] = {}


def leaf(*types: type) -> Callable[[Callable[[Walk, Any], str | Node]], Callable[[Walk, Any], str | Node]]:
    """Register the text of immutable leaves of exactly these types."""

    def register(rule: Callable[[Walk, Any], str | Node]) -> Callable[[Walk, Any], str | Node]:
        LEAVES.update(dict.fromkeys(types, rule))
        return rule

    return register


def exact(*types: type) -> Callable[[Callable[[Walk, Node], Recipe]], Callable[[Walk, Node], Recipe]]:
    """Register the rule for values of exactly these types."""

    def register(rule: Callable[[Walk, Node], Recipe]) -> Callable[[Walk, Node], Recipe]:
        EXACT.update(dict.fromkeys(types, rule))
        return rule

    return register


def base(*types: type) -> Callable[[Callable[[Walk, Node], Recipe]], Callable[[Walk, Node], Recipe]]:
    """Register the rule for values of classes derived from these types."""

    def register(rule: Callable[[Walk, Node], Recipe]) -> Callable[[Walk, Node], Recipe]:
        BASE.update(dict.fromkeys(types, rule))
        return rule

    return register


def type_name(cls: type) -> str:
    """A class's name as reasons give it."""
    name = qualname_of(cls)
    module = members_of(cls).get("__module__")
    return name if module in (None, "builtins") or not is_a(module, str) else f"{module}.{name}"


def joined(parts: Iterable[str | Node], separator: str = ", ") -> list[str | Node]:
    """The parts with separators between them."""
    out: list[str | Node] = []
    for part in parts:
        out += (part, separator)
    return out[:-1]


_TAKEN = re.compile(
    r"(?:[tevisuf]\d+|zu?f\d+|(?:call|stage)_\w+|MISS|PLAIN|missed|math|torch|float64|graph|inputs|externals|entry)\Z"
)


class Walk:
    """Collects what the values of one exit consist of: nodes, graph outputs, externals, constants."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.outputs: list[Any] = []
        self.externals: dict[Origin, str] = {}
        self.constants: dict[str, Any] = {}
        self.late: list[Text] = []  # statements that come after the changes of external objects
        self.layouts: dict[type, Any] = {}  # instances.py
        self.spelled: dict[Any, Any] = {}  # tuples of plain values that are in the text, by what they hold
        self.when_known: list[Callable[[], None]] = []  # called once all recipes are
        self.kept: list[Any] = []  # ids stay valid during the walk
        self._names: dict[int, str] = {}
        self._memo: dict[int, str | Node] = {}
        self._values: dict[Any, str] = {}
        self._open: list[Node] = []

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *error: object) -> None:
        """Let go of the program's objects: recipes that mention their own node would keep them alive."""
        for found in self._memo.values():
            if type(found) is Node:
                found.obj, found.recipe = None, _UNKNOWN

    def part(self, obj: Any) -> str | Node:
        """The text of a leaf, constant, external or output, or the node of an internal object; counts as one use."""
        rule = LEAVES.get(type(obj))
        return self.one(obj) if rule is None else rule(self, obj)

    def one(self, obj: Any) -> str | Node:
        """As `part`, for what is one object wherever it stands."""
        found = self._memo.get(id(obj))
        if found is None:
            found = self._memo[id(obj)] = self._meet(obj)
            self.kept.append(obj)
        if type(found) is Node:
            found.uses += 1
        return found

    def _meet(self, obj: Any) -> str | Node:
        scene = self.scene
        if scene.is_stand_in(obj):
            origin = scene.input_origin(obj)
            if origin is not None:
                return self.external(origin)
            self.outputs.append(obj)
            return f"t{len(self.outputs) - 1}"
        shadow = scene.shadow_of(obj)
        origin = scene.origin_of(obj) if shadow is None else shadow.origin
        if origin is not None:
            return self.external(origin)
        cls = type(obj)
        mro = mro_of(cls)
        if type in mro:
            return self.constant(obj, obj.__name__)
        if enum.Enum in mro:
            return self.constant(obj, f"{name_of(cls)}_{obj._name_}")
        node = Node(obj)
        self._open.append(node)
        return node

    def external(self, origin: Origin) -> str:
        """The text for what is at an origin: a constant where identity was guarded, else an entry of `externals`."""
        if origin.step == "const":
            return self.constant(origin.key, _hint(origin.key))
        return self.externals.setdefault(origin, f"e{len(self.externals)}")

    def constant(self, obj: Any, hint: str) -> str:
        """The name under which the entry sees an object that never changes."""
        name = self._names.get(id(obj))
        if name is not None:
            return name
        stem = re.sub(r"\W", "_", hint) or "k"
        if stem[0].isdigit() or keyword.iskeyword(stem) or _TAKEN.match(stem) or not stem.isascii():
            stem = f"k_{stem}" if stem.isascii() else "k"
        if getattr(builtins, stem, obj) is not obj:
            stem += "_"
        name, count = stem, 1
        while name in self.constants:
            count += 1
            name = f"{stem}_{count}"
        self.constants[name] = obj
        self._names[id(obj)] = name
        return name

    def value(self, obj: Any, hint: str) -> str:
        """The constant's name for an immutable value; equal values of one type are one constant."""
        name = self._values.get((type(obj), obj))
        if name is None:
            name = self._values[type(obj), obj] = self.constant(obj, hint)
        return name

    def interior(self, obj: Any, recipe: Callable[[Node], Recipe]) -> Node | None:
        """Say that an internal object is a part of another one, whatever path met it first; None: it is external."""
        found = self._memo.get(id(obj))
        if found is None:
            if self.scene.shadow_of(obj) is not None or self.scene.origin_of(obj) is not None:
                return None
            found = self._memo[id(obj)] = Node(obj)
            self.kept.append(obj)
        if type(found) is not Node:
            return None
        if not found.recipe.interior:
            found.recipe = recipe(found)
        found.uses += 1
        return found

    def expand(self) -> None:
        """Give every node met so far its recipe, and so on for the nodes those mention."""
        for node in self._open:  # grows meanwhile
            if node.recipe is _UNKNOWN:
                node.recipe = self._recipe(node)
        self._open.clear()
        for tell in self.when_known:
            tell()

    def _recipe(self, node: Node) -> Recipe:
        cls = type(node.obj)
        rule = EXACT.get(cls)
        if rule is None and type in mro_of(cls):
            raise Interrupt("result-object", f"{type_name(node.obj)} (a class created inside)")
        if rule is None:
            for parent in mro_of(cls):
                rule = BASE.get(parent)
                if rule is not None:
                    break
        if rule is None:
            raise Interrupt("result-object", type_name(cls))
        return rule(self, node)


def _hint(obj: Any) -> str:
    if type(obj) is dict:
        return f"globals_of_{obj.get('__name__', 'code')}".replace(".", "_")
    return name_of(obj).rpartition(".")[2] or class_name(type(obj)).rpartition(".")[2]
