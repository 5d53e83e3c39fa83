"""Entries: the generated Python function that replaces a root.  Planned from a scene, then built with its graph.

    def entry(inputs, externals):
        t0, t1 = graph(*inputs)
        e0, = externals
        e0.calls = 3
        return {'loss': t0, 'logits': t1}

The source is registered with linecache, so tracebacks and debuggers show it; `entry.__source__` holds it.
"""

from __future__ import annotations

import itertools
import linecache
import re
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..exc import InternalError
from ..overriding.subclasses import classes_of
from ..vocabulary.origins import Origin
from . import callables, handles, native_steps  # noqa: F401  (they register themselves)
from .effects import TOGETHER, effect_statement, merged
from .order import statements
from .recipe import Text, Walk
from .scene import Scene
from .write_back import difference


@dataclass(frozen=True, slots=True, eq=False)
class EntryPlan:
    """The parts of an entry: its source, the constants the source names, the graph's outputs in order, the externals.

    `acts`: it changes objects of the program, beside what the graph does; `changed`: where these are.  `classes`: the
    outputs that are of classes that override torch functions.
    """

    source: str
    constants: dict[str, Any]
    outputs: tuple[Any, ...]
    externals: tuple[Origin, ...]
    acts: bool = False
    changed: tuple[str, ...] = ()
    classes: tuple[tuple[int, type], ...] = ()

    def __str__(self) -> str:
        return self.source


_HEAD = "def entry(inputs, externals):"
#: the whole of many entries
_FIRST_OUTPUT = "return graph(*inputs)[0]"
#: the entry that says: run the frame in eager mode
PLAIN = EntryPlan(f"{_HEAD}\n    return PLAIN\n", {}, (), ())


def plan_return(scene: Scene, value: Any) -> EntryPlan:
    """The entry that applies the scene's effects and returns `value`."""
    with Walk(scene) as walk:
        changes, changed = _changes(walk)
        result = walk.part(value)
        walk.expand()
        made, written = statements([*changes, *walk.late, (result,)])
    return _plan(walk, [*made, *written[:-1], f"return {written[-1]}"], changed)


def _changes(walk: Walk) -> tuple[list[Text], tuple[str, ...]]:
    """The statements that change objects of the program, and where these objects are."""
    changes: list[Text] = []
    changed: list[str] = []
    for shadow in walk.scene.shadows:
        texts = difference(walk, shadow)
        if texts:
            changes += texts
            changed.append(str(shadow.origin))
    for kind, write in TOGETHER.items():
        effects = [change for change in walk.scene.effects if change.kind == kind]
        if effects:
            changes.append(write(walk, effects))
    for change in merged(walk.scene.effects):
        if change.kind not in TOGETHER:
            changes.append(effect_statement(walk, change))
        origin = walk.scene.origin_of(change.owner)
        place = str(origin) if origin is not None else change.kind
        changed.append(f"{place}.{change.key}" if type(change.key) is str else place)
    return changes, tuple(changed)


def _plan(walk: Walk, body: list[str], changed: tuple[str, ...]) -> EntryPlan:
    outputs, externals = len(walk.outputs), len(walk.externals)
    head = [f"{_targets('t', outputs)} = graph(*inputs)"] if outputs else []
    head += [f"{_targets('e', externals)} = externals"] if externals else []
    short = {"return t0": _FIRST_OUTPUT, "return e0": "return externals[0]"}
    if len(head) == len(body) == 1 and outputs + externals == 1 and body[0] in short:
        head, body = [], [short[body[0]]]
    source = "\n    ".join([_HEAD, *head, *body]) + "\n"
    words = set(re.findall(r"\w+", source))
    constants = {name: value for name, value in walk.constants.items() if name in words}
    made = tuple(walk.outputs)
    return EntryPlan(source, constants, made, tuple(walk.externals), bool(changed), changed, classes_of(made))


def _targets(letter: str, count: int) -> str:
    return f"{letter}0," if count == 1 else ", ".join(f"{letter}{i}" for i in range(count))


@dataclass(frozen=True, slots=True)
class Lines:
    """Source around that of an entry.

    `before` comes first.  What there is so far follows, inside `block` ("try:", "with ...:") where one is given, and
    then `after`.  What the entry returns in the end goes `through` a callable.  `names` are the callables and values
    that the lines name: MISS, PLAIN, and names that begin with `stage_`, which nothing else in an entry does.
    """

    before: tuple[str, ...] = ()
    block: str = ""
    after: tuple[str, ...] = ()
    through: str = ""
    names: Mapping[str, Any] = field(default_factory=dict)

    def around(self, body: list[str]) -> list[str]:
        """The lines of a function's body, with these around them."""
        if self.through:
            *body, last = body
            word, _, value = last.partition(" ")
            assert word == "return", last
            body = [*body, f"return {self.through}({value})"]
        if self.block:
            body = [self.block, *(f"    {line}" for line in body), *self.after]
        return [*self.before, *body]


_numbers = itertools.count(1)


def build_entry(
    plan: EntryPlan,
    graph: Callable[..., Any] | None,
    name: str,
    before: tuple[str, ...] = (),
    names: dict[str, Any] | None = None,
    around: Sequence[Lines] = (),
) -> types.FunctionType:
    """The entry as a function `entry(inputs, externals)`; `graph` is None when nothing has to be computed.

    A graph without outputs is called for its effects on its inputs.  `before` are lines that run first, over `names`;
    the lines of `around` come outside of all these, the first innermost.
    """
    if graph is None and plan.outputs:
        raise InternalError(f"the entry of {name} needs {len(plan.outputs)} outputs, and there is no graph")
    head, *body = plan.source.removesuffix("\n").split("\n    ")
    assert head == _HEAD
    if graph is not None and not plan.outputs:
        body.insert(0, "graph(*inputs)")
    return _function([*before, *body], {**(names or {}), **plan.constants, "graph": graph}, name, around)


def entry_around(run: Any, name: str, around: Sequence[Lines]) -> Any:
    """Return the function that runs an entry, with lines around it."""
    return _function(["return stage_run(inputs, externals)"], {"stage_run": run}, name, around) if around else run


def _function(body: list[str], names: Mapping[str, Any], name: str, around: Sequence[Lines]) -> types.FunctionType:
    space = {"__name__": "framelift.entries", **names}
    for lines in around:
        body = lines.around(body)
        assert all(space.get(one, value) is value for one, value in lines.names.items()), "a name for two things"
        space.update(lines.names)
    source = "\n    ".join([_HEAD, *body]) + "\n"
    filename = f"<framelift entry {name} #{next(_numbers)}>"
    exec(compile(source, filename, "exec", dont_inherit=True), space)
    entry = space.pop("entry")
    entry.__source__ = source
    entry.written = entry.__code__  # that the source says; somebody may give the function another
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    weakref.finalize(entry, linecache.cache.pop, filename, None).atexit = False
    return entry
