"""The form of a dialect: one CPython version's opcodes, as tables that the rewriter reads.

The facts themselves (which opcodes, which replacement) are in `dialects/`; this file only has the form they take.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from opcode import EXTENDED_ARG, hasjrel, opmap
from typing import Any, TypeVar

from .rule_writer import Writer

#: names under which a star call hands its positional and keyword arguments to the `call` probe
EX_ARGS = "*"
EX_KWARGS = "**"

#: every probe a twin may call, and how it is called
PROBES: dict[str, str] = {
    "call": "call(callable, *args, **kwargs); star calls: call(callable, **{EX_ARGS: iterable, EX_KWARGS: mapping})",
    "load_global": "load_global(name) -> value",
    "store_global": "store_global(value, name)",
    "delete_global": "delete_global(name)",
    "load_attr": "load_attr(object, name) -> value; methods come bound",
    "test_attr": (
        "test_attr(object, name) -> value, or a truth value like it: the next instruction asks for its truth alone"
    ),
    "store_attr": "store_attr(value, object, name)",
    "delete_attr": "delete_attr(object, name)",
    "load_deref": "load_deref(cell, name) -> contents of a free variable; (name,): of a variable of the function's own",
    "store_deref": "store_deref(value, cell)",
    "delete_deref": "delete_deref(cell, name)",
    "load_super_attr": (
        "load_super_attr(super_global, cls, self, name, flags) -> value, bound; flags & 2: super had arguments"
    ),
    "import_name": "import_name(level, fromlist, name) -> module",
    "import_from": "import_from(module, name) -> value",
    "before_with": "before_with(manager) -> manager; also for asynchronous ones",
    "match_class": "match_class(subject, cls, names, positional_count) -> tuple or None",
    "match_kind": "match_kind(subject) -> subject; about to be asked whether it is a sequence or mapping",
    "make_function": "make_function(function) -> function",
    "caught": "caught(exception); a handler begins",
    "check_text": "check_text(text) -> text; what an f-string or `%` made of a value",
    "formatted": "formatted(left, right) -> right; about to be the operand of `%`",
    "same_object": "same_object(left, right) -> whether they are one object",
    "contains": "contains(item, container) -> whether it has it",
    "iterate": "iterate(iterable) -> iterable; about to be walked",
    "spread": "spread(mapping) -> mapping; about to be merged into a dictionary",
}

#: the replacement of one instruction, from its argument; None leaves the instruction alone
Rule = Callable[[Writer, int], "bytes | None"]
_Rule = TypeVar("_Rule", bound=Rule)
#: places a dialect finds by looking around an instruction: (code, opcode bytes, argument bytes) -> code units
Marker = Callable[[Any, bytes, bytes], "set[int]"]


class UnsupportedPython(RuntimeError):
    """There is no dialect for the running CPython."""


@dataclass(frozen=True, slots=True)
class RegisteredRule:
    """A registered rule: `depth` is the most stack it needs above the depth at which its instruction starts."""

    rule: Rule
    depth: int
    where: str


class RuleTable(dict[str, RegisteredRule]):
    """Opcode name -> entry; filled by using the table as a decorator.

    `where` says which instructions of that opcode are meant: "all", "free" (code that has free variables), or "marked"
    (those the dialect's marker names, because the opcode alone does not decide).
    """

    def __call__(self, name: str, *, depth: int, where: str = "all") -> Callable[[_Rule], _Rule]:
        """Register a rule for one opcode."""

        def register(rule: _Rule) -> _Rule:
            assert name not in self, name
            self[name] = RegisteredRule(rule, depth, where)
            return rule

        return register

    def only(self, *names: str) -> RuleTable:
        """A new table with the named entries."""
        return RuleTable({name: self[name] for name in names})

    def without(self, *names: str) -> RuleTable:
        """A new table with all entries but the named ones."""
        return RuleTable({name: entry for name, entry in self.items() if name not in names})


@dataclass(frozen=True, slots=True)
class Dialect:
    """The tables of one CPython version.  Sequences are indexed by opcode number."""

    version: tuple[int, int]
    table: RuleTable
    rules: tuple[Rule | None, ...]
    spans: tuple[int, ...]  # code units an instruction takes, caches included
    jumps: tuple[int, ...]  # 0, 1 forward, -1 backward
    sites: bytes  # non-zero where the rewriter has to look, for `bytes.translate`
    free_sites: bytes  # the same for code with free variables
    mark: Marker
    depth: int
    calls: tuple[bytes, ...]  # calls[n]: call the first slot with the n + 1 slots above it
    load_cell: str  # opcode that pushes a cell itself
    before: dict[int, tuple[bytes, Rule]]  # opcodes with another rule right before some: non-zero for those, the rule
    null_above: bool  # the NULL of a call that is no method's lies above the callable, not below it
    exit_slots: int  # how much of the stack the `__exit__` of an open `with` block takes
    tags_offsets: bool  # an offset on the stack is no Python object


def build(
    version: tuple[int, int],
    table: RuleTable,
    *,
    caches: Mapping[str, int],
    call: Callable[[int], bytes],
    load_cell: str,
    mark: Marker,
    before: Mapping[str, tuple[Collection[str], Rule]],
    spans: Mapping[str, int] | None = None,
    null_above: bool = False,
    exit_slots: int = 1,
    tags_offsets: bool = False,
) -> Dialect:
    """Resolve a rule table to the running interpreter's numbers.  `spans` corrects what `caches` says.

    `before`: by the name of an opcode of the table, others, and the rule it has right before one of them.
    """
    spans = spans or {}
    sizes, directions = [1] * 256, [0] * 256
    rules: list[Rule | None] = [None] * 256
    for name, number in opmap.items():
        if number < 256:
            sizes[number] = spans.get(name, 1 + caches.get(name, 0))
            if number in hasjrel:
                directions[number] = -1 if "BACKWARD" in name else 1
    plain = bytearray(1 if directions[op] or op == EXTENDED_ARG else 0 for op in range(256))
    free = bytearray(plain)
    for name, entry in table.items():
        number = opmap[name]
        assert not directions[number], name
        rules[number] = entry.rule
        plain[number] = entry.where == "all"
        free[number] = entry.where in ("all", "free")
    return Dialect(
        version,
        table,
        tuple(rules),
        tuple(sizes),
        tuple(directions),
        bytes(plain),
        bytes(free),
        mark,
        max(entry.depth for entry in table.values()),  # a rule of `before` needs no more than others do
        tuple(call(n) for n in range(6)),
        load_cell,
        {opmap[name]: (_table(others), rule) for name, (others, rule) in before.items()},
        null_above,
        exit_slots,
        tags_offsets,
    )


def _table(names: Collection[str]) -> bytes:
    numbers = {opmap[name] for name in names}
    return bytes(op in numbers for op in range(256))
