"""Seed and size -> a program: one source text, and for each call the statements that run before it."""

from __future__ import annotations

import contextlib
import functools
import random
import re
from dataclasses import dataclass, field

from .grammar import COMPOUNDS, EXPRESSIONS, LITERALS, STATEMENTS
from .mutations import GENTLE, HARSH, HELPERS
from .prelude import ARGUMENTS, ASSIGNED, PRELUDE, ROOTS
from .steer import Endless, Scratch, bounded

__all__ = ["Program", "generate"]

PLACEHOLDER = re.compile(r"<(?:(new|old|lit|fresh|same):)?([a-z_]+)>")

#: which generated bodies a body may reach, so that no program recurses: texts a template of that level must not hold
LEVELS: dict[str, tuple[str, ...]] = {
    "leaf": (
        "helper",
        "twist(",
        "score",
        "shape_it",
        ".fn",
        "<fn>",
        "BOUND",
        "PART",
        "HANDLERS",
        "NET(",
        "Base(",
        "<obj>.make",
        "Base.make",
        "Child(",
        "bump",
    ),
    "method": ("score", "shape_it", ".fn(", "<fn>", "BOUND", "PART", "HANDLERS", "NET("),
    "root": (),
}

#: what a program that only reads must not hold.  A program that changes what it reads is recompiled by every call,
#: and then no stale entry can ever be used; so about half of the programs only read.
WRITES = ("DD[", ".add_(", ".bump(", "COUNT +=", "OUT.", "CTX", "torch.rand", "dropout", "NET(")
READING = tuple(t for t in STATEMENTS if t.startswith(("<new:", "<old:")))


@dataclass(frozen=True)
class Program:
    """A program of the law test.  `changes[i]` runs before call number i; the first is empty."""

    seed: int
    source: str
    changes: tuple[tuple[str, ...], ...]
    backward: bool = False

    def text(self) -> str:
        """Everything a reader needs."""
        steps = "\n".join(f"# before call {i}: {'; '.join(c) or '(nothing)'}" for i, c in enumerate(self.changes))
        return f"# seed {self.seed}{', backward after each call' if self.backward else ''}\n{self.source}\n{steps}\n"


@dataclass
class _Scope:
    """Locals by kind, visible at one place of a body."""

    locals: dict[str, list[str]] = field(default_factory=dict)

    def inner(self) -> _Scope:
        return _Scope({k: list(v) for k, v in self.locals.items()})

    def add(self, kind: str, name: str) -> None:
        self.locals.setdefault(kind, []).append(name)


@functools.cache
def allowed(templates: tuple[str, ...], forbidden: tuple[str, ...]) -> list[str]:
    """The templates that hold none of the forbidden texts."""
    return [t for t in templates if not any(word in t for word in forbidden)]


class _Body:
    """Expands templates into one function body.

    `focus` holds the words of what will change between calls: templates that read those places are preferred, since a
    change of something unread tests nothing.
    """

    def __init__(
        self,
        rng: random.Random,
        level: str,
        scope: _Scope,
        budget: int,
        focus: frozenset[str] = frozenset(),
        writes: bool = True,
    ) -> None:
        self.rng = rng
        self.focus = focus
        self.forbidden = LEVELS[level] + (() if writes else WRITES)
        self.statements = STATEMENTS if writes else READING
        self.scope = scope
        self.budget = budget  # statements left
        self.counter = 0

    def allowed(self, templates: tuple[str, ...]) -> list[str]:
        return allowed(templates, self.forbidden)

    def choose(self, templates: list[str]) -> str:
        near = [t for t in templates if words_of(t) & self.focus]
        return self.rng.choice(near if near and self.rng.random() < 0.5 else templates)

    def expression(self, kind: str, depth: int) -> str:
        atoms, compounds = EXPRESSIONS[kind]
        known = self.scope.locals.get(kind, [])
        if known and self.rng.random() < 0.3:
            return self.rng.choice(known)
        if depth <= 0 or self.rng.random() < 0.3:
            options = self.allowed(atoms)
            if not self._has("x"):
                options = [t for t in options if t != "x" and "[x" not in t]
            if not self._has("extra"):
                options = [t for t in options if t != "extra"]
            return self.fill(self.choose(options), 0)
        return self.fill(self.choose(self.allowed(compounds)), depth - 1)

    def _has(self, name: str) -> bool:
        return any(name in names for names in self.scope.locals.values())

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def fill(self, template: str, depth: int) -> str:
        """Replace the placeholders from left to right; new locals become visible after the template."""
        news: list[tuple[str, str]] = []
        named: dict[str, str] = {}

        def one(match: re.Match[str]) -> str:
            how, kind = match.groups()
            if kind == "fresh" or how == "fresh":
                name = self.fresh("t" if how is None else kind)
                named[kind] = name
                return name
            if how == "same":
                return named[kind]
            if how == "lit" or kind == "word":
                return self.rng.choice(LITERALS[kind])
            if how == "new":
                name = self.fresh(kind[0])
                news.append((kind, name))
                if kind == "err":
                    named["err"] = name
                return name
            if how == "old":
                if kind == "err":
                    return named["err"]
                known = [n for n in self.scope.locals.get(kind, []) if "(" not in n and n != "self"]
                return self.rng.choice(known) if known else {"tensor": "BOX"}.get(kind, "COUNT")
            return self.expression(kind, depth)

        done = PLACEHOLDER.sub(one, template)
        for kind, name in news:
            if kind != "err":
                self.scope.add(kind, name)
        return done

    def block(self, statements: int, nesting: int) -> list[str]:
        """Lines of one block, at least one."""
        outer = self.scope
        self.scope = outer.inner()
        lines: list[str] = []
        for _ in range(max(1, statements)):
            if self.budget <= 0:
                break
            self.budget -= 1
            if nesting < 3 and self.rng.random() < 0.3:
                lines += self.compound(nesting)
            else:
                lines.append(self.simple())
        if self.rng.random() < 0.95:
            self.scope = outer
        return lines or ["pass"]

    def simple(self) -> str:
        return self.fill(self.choose(self.allowed(self.statements)), 2)

    def compound(self, nesting: int) -> list[str]:
        lines: list[str] = []
        template = self.rng.choice(self.allowed(COMPOUNDS))
        # Header and names are filled in one piece; blocks are put in afterwards, where loop variables are known.
        filled = self.fill(template.replace("<block>", "\0"), 2)
        for line in filled.split("\n"):
            if line.strip() == "\0":
                indent = line[: len(line) - len(line.lstrip(" "))]
                lines += [indent + inner for inner in self.block(self.rng.randint(1, 3), nesting + 1)]
            else:
                lines.append(line)
        return lines


@functools.cache
def words_of(template: str) -> frozenset[str]:
    """The words and operators of a template, by which it is found to concern a place."""
    return frozenset(re.findall(r"[A-Za-z_]\w*|==|\[", PLACEHOLDER.sub("", template)))


#: a change of the word on the left shows in expressions that hold one of the words on the right
SHOWS_IN: dict[str, tuple[str, ...]] = {
    "ARGS": ("shape", "dtype", "requires_grad", "dim", "is_contiguous", "numel", "n", "is"),
    "KWARGS": ("extra", "flag"),
    "MODE": ("requires_grad", "is_grad_enabled"),
    "__class__": ("weight", "kind", "isinstance", "type", "score"),
    "__bases__": ("weight", "score", "Child"),
    "__len__": ("len", "bool"),
    "__bool__": ("bool", "or", "if"),
    "__eq__": ("==",),
    "__contains__": ("in",),
    "__getitem__": ("[",),
    "__getattr__": ("extra", "more", "anything", "getattr", "hasattr"),
    "__setattr__": ("extra", "n"),
    "__getattribute__": ("n", "extra"),
    "__init__": ("Base", "Child", "Record", "make"),
    "__new__": ("Base", "Child"),
    "__exit__": ("CTX",),
    "__enter__": ("CTX",),
    "__defaults__": (),
    "__kwdefaults__": (),
    "__code__": (),
    "requires_grad_": ("requires_grad",),
    "data": ("shape", "dtype"),
    "double": ("dtype",),
    "train": ("training",),
    "register_forward_hook": ("NET", "lin"),
    "register_forward_pre_hook": ("NET",),
    "forward": ("NET", "lin"),
    "default_factory": ("DD",),
    "grab": ("BAG",),
    "_value_": ("COLOR",),
    "Color": ("COLOR",),
    "Lazy": ("LAZY",),
    "Context": ("CTX",),
    "Fact": ("FACT",),
    "Bag": ("BAG",),
    "Net": ("NET",),
}
#: words of so many templates that they focus nothing
VERBS = frozenset(
    {
        "del",
        "append",
        "pop",
        "add",
        "discard",
        "clear",
        "reverse",
        "rotate",
        "update",
        "add_",
        "[",
        "requires_grad_",
        "data",
        "__class__",
        "train",
    }
)
GENERAL = VERBS | {"Base", "Child", "THING", "POOL", "NET", "torch", "root", "set_cell", "RUNNER"}


def focus_of(changes: list[str]) -> frozenset[str]:
    """The words by which expressions are found that see these changes."""
    found: set[str] = set()
    for statement in changes:
        parts = re.split(r" [-+]?= |\(", statement, maxsplit=1)
        for word in words_of(parts[0]) - {"["}:
            found.update(SHOWS_IN.get(word, ()))
            found.add(word)
        if len(parts) > 1 and re.fullmatch(r"[\w.\[\]']+", parts[1]):
            found.add("is")  # two places become one object
    return frozenset(found) - GENERAL


def _body(
    rng: random.Random,
    level: str,
    scope: dict[str, list[str]],
    statements: int,
    result: str,
    indent: int,
    focus: frozenset[str],
    writes: bool,
) -> str:
    body = _Body(rng, level, _Scope({k: list(v) for k, v in scope.items()}), statements * 3, focus, writes)
    lines = [f"global {', '.join(ASSIGNED)}", "fuel = 0"]
    for _ in range(statements):
        body.budget = max(body.budget, 1)
        lines += body.compound(0) if rng.random() < 0.3 else [body.simple()]
    # What was read shows in the result, else a stale value could hide.
    made = [n for names in body.scope.locals.values() for n in names if re.fullmatch(r"[a-z]\d+", n)]
    shown = f", [{', '.join(made)}]" if made and level == "root" and rng.random() < 0.7 else ""
    lines.append(f"return {body.fill(result, 2)}{shown}")
    return "\n".join(" " * indent + line for line in lines)


ROOT_SCOPE = {"tensor": ["x"], "int": ["n"], "obj": ["o"], "bool": ["flag"], "ints": ["list(rest)"], "table": ["extra"]}
EXTRA_SCOPE: dict[str, dict[str, list[str]]] = {
    "function": {},
    "closure": {"int": ["n", "c_int"], "ints": ["c_list"], "obj": ["o", "c_obj"]},
    "method": {"obj": ["o", "self"], "int": ["n", "self.n"]},
    "module": {
        "int": ["n", "self.n"],
        "tensor": ["x", "self.memory", "self.inner(x)"],
        "float": ["self.scale"],
        "obj": ["o", "self.child"],
    },
}
RESULTS = (
    "<tensor>",
    "<tensor>, <int>",
    "(<tensor>, [<any>, <any>])",
    "{'out': <tensor>, 'k': <any>}",
    "[<any>, <tensor>, <obj>]",
    "Record(<int>, <tensor>)",
    "<any>",
    "(<fn>, <tensor>)",
    "(<tensor>, <tensor>.shape, <tensor>.dtype, <tensor>.requires_grad)",
    "(<int>, <int>, <str>, <bool>)",
    "(<bool>, <bool>, <tensor>)",
)


def generate(seed: int, size: int = 4) -> Program:
    """The program of a seed.  `size` is about the number of statements of the function under test."""
    attempt = 0
    while True:
        rng = random.Random(f"{seed}/{size}/{attempt}")
        source, near = _source(size, rng)
        changes = _changes(source, near, rng, demanding=attempt < 6 and seed % 8 != 0)
        if changes is not None:
            return Program(seed, source, changes, backward=rng.random() < 0.2)
        attempt += 1


def relevant(changes: tuple[str, ...], source: str) -> list[str]:
    """The changes whose place is named in a generated body of the program (those begin with the same two lines)."""
    bodies = re.findall(r"fuel = 0\n(.*?)(?=\n\n)", source, re.DOTALL)
    named = set(re.findall(r"\w+", "\n".join(bodies))) | {"ARGS"}
    return [c for c in changes if words_of(re.split(r" [-+]?= |\(", c, maxsplit=1)[0]) - VERBS <= named]


def _changes(source: str, near: list[str], rng: random.Random, demanding: bool) -> tuple[tuple[str, ...], ...] | None:
    """The changes between calls, or None for a program that is not worth running.

    Templates may meet in ways Python does not allow (:= in a comprehension's source), one that raises on its first call
    tests little, and one may never end (a list that a loop over it makes longer).
    """
    try:
        code = compile(source, "<law>", "exec", dont_inherit=True)
    except SyntaxError:
        return None
    body = _Body(rng, "root", _Scope(), 0)
    tables = ([near] * 4, [relevant(GENTLE, source)] * 3, [relevant(HARSH, source)] * 3, [GENTLE, HARSH])
    choices = [t for group in tables for t in group if t]

    def propose() -> str:
        return body.fill(rng.choice(rng.choice(choices)), 0)

    with Scratch(code) as scratch, contextlib.suppress(Endless), bounded():
        if demanding and scratch.call()[0]:
            return None
        return scratch.changes(rng, propose, calls=rng.randint(5, 10))
    return None


def _source(size: int, rng: random.Random) -> tuple[str, list[str]]:
    """The text of a program, and the templates of changes it was written around."""
    form = rng.choice(["function", "function", "closure", "method", "module"])
    small = max(1, size // 3)
    changes = rng.sample(GENTLE, 5) + rng.sample(HARSH, 4)
    focus = focus_of(changes)
    writes = rng.random() < 0.5

    def body(level: str, scope: dict[str, list[str]], result: str, indent: int) -> str:
        return _body(rng, level, scope, rng.randint(0, small), result, indent, focus, writes)

    bodies = {
        "helper": body("leaf", {"int": ["n", "k", "bias"]}, "<int>", 4),
        "twist": body("leaf", {"tensor": ["t"], "num": ["amount"], "float": ["amount"]}, "<tensor>", 4),
        "score": body("method", {"int": ["k", "self.n"], "obj": ["self"]}, "<int>", 8),
        "shape_it": body("method", {"tensor": ["t"], "obj": ["self"]}, "<tensor>", 8),
        "forward": body("method", {"tensor": ["t", "self.lin(t)"], "int": ["self.steps"]}, "<tensor> * self.scale", 8),
    }
    indent = 4 if form == "function" else 8
    root = _body(rng, "root", {**ROOT_SCOPE, **EXTRA_SCOPE[form]}, size, rng.choice(RESULTS), indent, focus, writes)
    bodies["root"] = bodies["root_deep"] = root
    text = PRELUDE + HELPERS + ROOTS[form] + ARGUMENTS
    source = re.sub(r"@@(\w+)@@", lambda m: bodies[m[1]] if m[1] in bodies else rng.choice(LITERALS[m[1]]), text)
    return source, changes
