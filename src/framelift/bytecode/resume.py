"""The code objects a graph break needs: a twin that stops before an instruction, and code that resumes at one.

A frame is handed over as its live locals, its cells and its stack.  `resume_code` takes these as arguments, puts
them back and jumps; `stops` are instructions before which such code hands over again instead of going on.  All of
it is made from the original code, so that going on twice at the same place gives the same code object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from inspect import CO_VARARGS, CO_VARKEYWORDS
from opcode import _nb_ops  # type: ignore[attr-defined]  # private in typeshed
from types import CodeType
from typing import Any

from .. import _core
from .assembly import Op, assemble, disassemble, from_bytes, make
from .decode import CELLS, LOCALS, Instruction, instructions, local_name, locals_of
from .dialects import current
from .encode import named
from .flow import LOOKS_AT_LOCALS, Flow
from .maker import make_twin, note_resumed, note_twin
from .rule_writer import RESUMES

#: a slot of the stack in a Point: NULL, a value, or (an int) the unit an exception came from
NULL, VALUE = "null", "value"


@dataclass(frozen=True, slots=True)
class Point:
    """Where and in what condition a frame is handed over; `unit` is of the original code."""

    unit: int
    stack: tuple[str | int, ...]
    bound: tuple[str, ...]  # locals that have a value, if they are live or their end would be seen
    handled: bool  # inside an except or finally block


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop, as the native side reads it from the frame, in this order; slots are those of the code that runs."""

    depth: int
    locals: tuple[int, ...]
    cells: tuple[int, ...]
    handled: bool
    unit: int
    names: tuple[str, ...]
    offsets: tuple[int, ...]
    dead: frozenset[str]  # of the names: those that nothing reads any more
    steps: list[Any] = field(default_factory=list, compare=False, repr=False)  # the native loop's, see `drive`


@dataclass(frozen=True, slots=True)
class Made:
    """Code that resumes at a point; `order`: which values are its arguments (negative: contents of a cell)."""

    code: CodeType
    order: tuple[int, ...]
    units: dict[int, int]  # original unit -> unit here
    originals: dict[int, int]  # and back
    start: int  # the original unit where it resumes
    point: Point


def _slot(code: CodeType, name: str) -> int:
    """A variable's place in the frame."""
    if name in code.co_varnames:
        return code.co_varnames.index(name)
    return len(code.co_varnames) + [*_only_cells(code), *code.co_freevars].index(name)


def _only_cells(code: CodeType) -> list[str]:
    return [cell for cell in code.co_cellvars if cell not in code.co_varnames]


def _slots(code: CodeType) -> int:
    """How many variables a frame has; its stack follows."""
    return len(code.co_varnames) + len(_only_cells(code)) + len(code.co_freevars)


def _receiver(code: CodeType) -> str | None:
    """The parameter that `super()` looks for in the frame's first slot."""
    looks = "super" in code.co_names and "__class__" in code.co_freevars and code.co_argcount
    return code.co_varnames[0] if looks else None


def stop_at(flow: Flow, running: CodeType, unit: int) -> Stop:
    """Return what to read at a stop before the original instruction `unit`, in a frame of `running`."""
    shape = flow.shapes[unit]
    code, there = flow.code, frozenset(running.co_varnames)
    kept = {*flow.live(unit), _receiver(code)}
    # what a comprehension goes over lies on its stack, where `.0` is another name
    names = tuple(
        name
        for name in code.co_varnames
        if name in there and name not in code.co_cellvars and (name in kept or not name.startswith("."))
    )
    dead = frozenset(names) - kept
    names += tuple(name for name in flow.hidden(unit) if name in there)
    return Stop(
        shape.depth,
        tuple(_slot(running, name) for name in names),
        tuple(_cell(flow, running, unit, name) for name in code.co_cellvars),
        bool(shape.saved),
        unit,
        names,
        shape.offsets,
        dead,
    )


def unread(flow: Flow, running: CodeType, start: int, stop: int | None) -> frozenset[str]:
    """The parameters of `running` that nothing looks at from the instruction `start` to `stop` (None: the end)."""
    named = running.co_varnames[: parameter_count(running)]
    first = _receiver(flow.code)
    return frozenset(name for name in named if not name.startswith(".") and name != first) - flow.touched(start, stop)


def let_go(flow: Flow, made: Made) -> tuple[int, ...]:
    """The places of the arguments that the code may let go of before it ends: names that are bound anew or deleted,
    values taken off the stack.
    """
    ops = [flow.at[unit] for unit in made.units if unit in flow.shapes]
    names = {
        local_name(flow.code, op.arg)
        for op in ops
        if op.name in ("STORE_FAST", "DELETE_FAST") and not _only_leaves(flow, op)
    }
    given = made.code.co_varnames[: made.code.co_argcount]
    managers = _open_exits(flow, made.start, current().exit_slots - 1)
    return tuple(
        i
        for i, name in enumerate(given)
        if name in names
        or name[1:].isdigit()
        and int(name[1:]) not in managers
        and _is_taken_off(flow, made.start, int(name[1:]))
    )


def open_exits(flow: Flow, made: Made) -> tuple[int, ...]:
    """The places of the arguments that are `__exit__` of `with` blocks which are open where the code begins."""
    slots = _open_exits(flow, made.start, current().exit_slots)
    given = made.code.co_varnames[: made.code.co_argcount]
    return tuple(i for i, name in enumerate(given) if name[1:].isdigit() and int(name[1:]) in slots)


def _open_exits(flow: Flow, unit: int, below: int) -> set[int]:
    """The slots so far below the top of what the `__exit__` of each `with` block takes that is open at an instruction:
    1 is the topmost one.  The second of two slots is the manager, where the first takes it for an argument.
    """
    start, slots = flow.at[unit], set()
    for handler in (start.handler, flow.left_block(start)):
        while handler is not None and below:
            if flow.is_of_with(handler[0]):
                slots.add((handler[1] >> 1) - below)
            handler = handler[0].handler
    return slots


def _is_taken_off(flow: Flow, start: int, slot: int) -> bool:
    """Return whether what lies in a slot of the stack at `start` may be taken off, other than by a loop that is at its
    iterator's end, and not in leaving.
    """
    seen, pending = {start}, [flow.at[start]]
    while pending:
        op = pending.pop()
        nexts = [(each, flow.shapes[each.unit].depth) for each in flow.following(op)]
        if op.handler is not None:
            nexts.append((op.handler[0], op.handler[1] >> 1))
        for each, depth in nexts:
            if depth > slot:
                if each.unit not in seen:
                    seen.add(each.unit)
                    pending.append(each)
            elif op.name != "FOR_ITER" and not _only_leaves(flow, op):
                return True
    return False


def untouched(code: CodeType) -> frozenset[str]:
    """The parameters that no instruction of `code` names, and that nothing finds by looking at the frame."""
    left = {name for name in code.co_varnames[: parameter_count(code)] if not name.startswith(".")} - {
        _receiver(code),
        *code.co_cellvars,
    }
    if LOOKS_AT_LOCALS.intersection(code.co_names):
        return frozenset()
    for op in instructions(code.co_code):
        if not left:
            break
        if op.op in LOCALS:
            left.difference_update(local_name(code, place) for _, place in locals_of(op.op, op.arg))
    return frozenset(left)


def rebound(code: CodeType) -> frozenset[str]:
    """The parameters that may let go of their arguments before the frame ends: written or deleted somewhere, or of the
    stack of a frame that was handed over.
    """
    parameters = code.co_varnames[: parameter_count(code)]
    return frozenset(name for name in parameters if name.startswith(".")) | _written(code).intersection(parameters)


def _written(code: CodeType) -> set[str]:
    """The variables that a code object, or one made in it, writes or deletes."""
    found: set[str] = set()
    for op in instructions(code.co_code):
        if op.op in LOCALS or op.op in CELLS:
            found.update(
                local_name(code, place)
                for name, place in locals_of(op.op, op.arg)
                if name.startswith(("STORE_", "DELETE_"))
            )
    for part in code.co_consts:
        if _core.is_a(part, CodeType):
            found |= _written(part).intersection(part.co_freevars)
    return found


def read_by_index(code: CodeType) -> dict[str, frozenset[int]]:
    """The parameters of which `code` reads nothing but entries by constant numbers (`sizes[0]`), and these numbers."""
    if LOOKS_AT_LOCALS.intersection(code.co_names):
        return {}
    parameters = code.co_varnames[: parameter_count(code)]
    found: dict[str, set[int] | None] = {name: set() for name in parameters if name not in code.co_cellvars}
    following = [*instructions(code.co_code)]
    for at, op in enumerate(following):
        if op.op not in LOCALS:
            continue
        *whole, (last, place) = locals_of(op.op, op.arg)
        found.update((local_name(code, one), None) for _, one in whole)
        name = local_name(code, place)
        index, numbers = _entry_read(code, last, following[at + 1 : at + 3]), found.get(name)
        if type(index) is int and numbers is not None:
            numbers.add(index)
        else:
            found[name] = None
    return {name: frozenset(numbers) for name, numbers in found.items() if numbers}


#: the operator of BINARY_OP that takes an entry, where no opcode of its own does
_ENTRY = next((number for number, (name, _) in enumerate(_nb_ops) if name == "NB_SUBSCR"), -1)


def _entry_read(code: CodeType, load: str, following: list[Instruction]) -> Any:
    """The constant of `name[constant]` if `load` begins one, of which no part can be jumped over."""
    if len(following) < 2:
        return None
    index, take = following
    takes = take.name == "BINARY_SUBSCR" or (take.name == "BINARY_OP" and take.arg == _ENTRY)
    if load not in ("LOAD_FAST", "LOAD_FAST_BORROW") or not takes:
        return None
    if index.name == "LOAD_SMALL_INT":
        return index.arg
    return code.co_consts[index.arg] if index.name == "LOAD_CONST" else None


def parameter_count(code: CodeType) -> int:
    """How many locals a frame begins with."""
    return (
        code.co_argcount
        + code.co_kwonlyargcount
        + bool(code.co_flags & CO_VARARGS)
        + bool(code.co_flags & CO_VARKEYWORDS)
    )


def _cell(flow: Flow, running: CodeType, unit: int, name: str) -> int:
    """Where the cell of a variable of the original is; an inlined comprehension puts it on the stack."""
    if name in running.co_freevars:
        return _slots(running) - len(running.co_freevars) + running.co_freevars.index(name)
    for place, hidden in flow.shapes[unit].kept:
        if hidden == name:
            return _slots(running) + place
    return _slot(running, name)


def stop_twin(code: CodeType, place: int, probes: dict[str, Any], stop: Stop, probe: Callable[[Stop], Any]) -> CodeType:
    """A twin of `code` that calls `probe(stop)` before its instruction at unit `place`, outside of every handler."""
    twin = make_twin(code, probes)
    ops = disassemble(twin)
    at = next(op for op in ops if op.unit == place)
    consts = (*twin.co_consts, probe, stop)
    put = [*_call(len(consts) - 2, len(consts) - 1, at), make("POP_TOP", like=at)]
    made = assemble(twin, _insert(ops, {place: put}), co_consts=consts, co_stacksize=twin.co_stacksize + 3)[0]
    note_twin(made, code)
    return made


def point_of(handed: Any, end_is_seen: Callable[[Any], bool]) -> tuple[Point, tuple[Any, ...]]:
    """Where a frame was handed over, and its values in the order in which `resume_code` takes them.

    Empty slots and unbound variables are NULL marks.  Locals that nothing reads any more live until the frame ends
    all the same, where `end_is_seen` says that their end matters.
    """
    null, stop = _core.NULL, handed.stop
    kept = tuple(
        [
            value is not null and (name not in stop.dead or end_is_seen(value))
            for name, value in zip(stop.names, handed.locals)
        ]
    )
    point = point_at(handed, kept)
    values = [value for slot, value in zip(point.stack, handed.stack) if slot == VALUE]
    values += [value for is_kept, value in zip(kept, handed.locals) if is_kept]
    values += handed.cells
    if stop.handled:
        values.append(handed.handled)
    return point, tuple(values)


def point_at(handed: Any, kept: tuple[bool, ...]) -> Point:
    """Where a frame was handed over.  `kept`: which of its locals are handed on."""
    null, stop = _core.NULL, handed.stop
    stack = tuple(
        NULL if value is null else value if i in stop.offsets and type(value) is int else VALUE
        for i, value in enumerate(handed.stack)
    )
    bound = tuple([name for name, is_kept in zip(stop.names, kept) if is_kept])
    return Point(stop.unit, stack, bound, stop.handled)


def _call(function: int, argument: int, like: Op) -> list[Op]:
    return [
        make("LOAD_CONST", function, like=like),
        make("LOAD_CONST", argument, like=like),
        *from_bytes(current().calls[0], like),
    ]


def _insert(ops: list[Op], before: dict[int, list[Op]]) -> list[Op]:
    """Put instructions in front of others; who jumped there now jumps to what was put in."""
    first = {id(op): before[op.unit][0] for op in ops if op.unit in before}
    out: list[Op] = []
    for op in ops:
        if op.target is not None:
            op.target = first.get(id(op.target), op.target)
        if op.handler is not None:
            op.handler = (first.get(id(op.handler[0]), op.handler[0]), op.handler[1])
        out += [*before.get(op.unit, ()), op]
    return out


def stops_after(flow: Flow, unit: int) -> frozenset[int]:
    """The instructions that follow what is at `unit`, also after an exception: there, when the handler has begun.

    Where an inlined comprehension hides a variable with a cell, the frame runs on to the comprehension's end.
    """
    last = flow.last(unit)
    found: set[int] = set()
    seen: set[tuple[int, bool]] = set()
    pending = [(op, False) for op in flow.following(last)]
    pending += [(op.handler[0], True) for op in (flow.at[unit], last) if op.handler is not None]
    while pending:
        op, raised = pending.pop()
        if (op.unit, raised) in seen:
            continue
        seen.add((op.unit, raised))
        if raised and op.name == "PUSH_EXC_INFO":
            op = flow.following(op)[0]
            # hands the traceback to the context manager: still part of the plain run
            if op.name == "WITH_EXCEPT_START":
                op = flow.following(op)[0]
            raised = False
            if not flow.hidden(op.unit):
                found.add(op.unit)
                continue
        elif not raised and op.unit >= 0 and not flow.hidden(op.unit):
            if not _only_leaves(flow, op):
                found.add(op.unit)
            continue
        pending += [(each, raised) for each in flow.following(op)]
        if op.handler is not None:
            pending.append((op.handler[0], True))
    return frozenset(found)


_LEAVING = frozenset(
    (
        "POP_TOP",
        "LOAD_CONST",
        "LOAD_SMALL_INT",
        "LOAD_FAST",
        "LOAD_FAST_BORROW",
        "STORE_FAST",
        "NOP",
        "SWAP",
        "COPY",
        "RETURN_CONST",
        "RETURN_VALUE",
        "BUILD_TUPLE",
    )
)


def _only_leaves(flow: Flow, op: Op) -> bool:
    """Return whether from here the frame only returns what it has: not worth being captured."""
    while op.name in _LEAVING:
        if op.name in ("RETURN_VALUE", "RETURN_CONST"):
            return True
        op = flow.following(op)[0]
    return False


def resume_code(flow: Flow, point: Point, stops: Iterable[int] = (), throws: bool = False) -> Made:
    """Code that takes what was handed over at `point`, resumes there, and hands over at `stops`.

    Its free variables are the original's cells, then the original's free variables.  The cells are put where the
    original has them too: an unbound one is then missed as a variable of the function's own.

    `throws`: it takes one more argument, an exception, and raises that at the point instead of going on.  A block that
    is just about to end is left by it too.
    """
    code = flow.code
    left = flow.left_block(flow.at[point.unit]) if throws else None
    ops = flow.part(point.unit, frozenset(stops), [slot for slot in point.stack if isinstance(slot, int)], left)
    free = (*code.co_cellvars, *code.co_freevars)
    arguments, order = _arguments(code, point)
    if throws:
        arguments.append(".raised")
    used = {local_name(code, op.arg) for op in ops if op.op in LOCALS and flow.is_local(op)}
    hidden = {place for place, _ in flow.shapes[point.unit].kept}
    names = (*arguments, *(name for name in code.co_varnames if name not in arguments and name in used))
    names += (".unbound",) if hidden else ()
    slots = {name: i for i, name in enumerate(names)}
    # others are hidden by a variable of a comprehension somewhere
    own = tuple(name for name in code.co_cellvars if name not in slots)
    variables = (*own, *free)
    for op in ops:
        if op.op in LOCALS or op.op in CELLS:
            name = local_name(code, op.arg)
            op.arg = slots[name] if flow.is_local(op) else len(names) + variables.index(name)
    start = next(op for op in ops if op.unit == point.unit)
    consts: list[Any] = [*code.co_consts, RESUMES, _core.handle_from_here]
    head, offsets = _prologue(point, start, slots, consts, hidden)  # handle_from_here is the last constant so far
    if throws:
        handler = (next(op for op in ops if op.unit == left[0].unit), left[1]) if left is not None else start.handler
        head[-1:] = _raise(slots[".raised"], start, handler)
    head[:0] = _cells(own, free, len(names), start)
    form: dict[str, Any] = {
        "co_varnames": names,
        "co_nlocals": len(names),
        "co_cellvars": own,
        "co_freevars": free,
        "co_argcount": len(arguments),
        "co_posonlyargcount": 0,
        "co_kwonlyargcount": 0,
        "co_flags": code.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS),
    }
    if stops:
        ops = _with_bound_method(ops, start)
        shell = code.replace(**form)
        before = {}
        consts.append(_core.hand_over)
        function = len(consts) - 1
        for unit in stops:
            like = flow.at[unit]
            consts.append(stop_at(flow, shell, unit))
            before[unit] = [*_call(function, len(consts) - 1, like), make("RETURN_VALUE", like=like)]
        ops = _insert(ops, before)
    made, units = assemble(code, [*head, *ops], co_consts=tuple(consts), co_stacksize=code.co_stacksize + 4, **form)
    for index, unit in offsets:
        consts[index] = units.get(unit, 0)
    made = made.replace(co_consts=tuple(consts))
    note_resumed(made, code)
    return Made(made, order, units, {new: old for old, new in units.items()}, point.unit, point)


def _raise(place: int, start: Op, handler: tuple[Op, int] | None) -> list[Op]:
    """Raise what the variable at `place` holds, as if the instruction at `start` did, into a handler."""
    put = [
        make("LOAD_FAST", place, like=start),
        make("DELETE_FAST", place, like=start),
        make("RAISE_VARARGS", 1, like=start),
    ]
    put[-1].handler = handler
    return put


def _with_bound_method(ops: list[Op], start: Op) -> list[Op]:
    """A method load at `start` gives the bound method and a NULL: with a receiver, the call would miss the probes."""
    dialect, place = current(), ops.index(start)
    methods = (
        start.name == "LOAD_METHOD" or dialect.version >= (3, 12) and start.name in _METHOD_LOADS and start.arg & 1
    )
    if not methods:
        return ops
    name, arg = ("LOAD_ATTR", start.arg) if start.name == "LOAD_METHOD" else (start.name, start.arg & ~1)
    load = make(name, arg, like=start)
    load.caches = dialect.spans[load.op] - 1
    null = [make("PUSH_NULL", like=start)]
    if not dialect.null_above:  # below what the load takes
        null += [make("SWAP", depth, like=start) for depth in range(_METHOD_LOADS[start.name] + 1, 1, -1)]
    put = [load, *null] if dialect.null_above else [*null, load]
    for op in put:
        op.handler = start.handler
    start.op, start.arg, start.caches = make("NOP").op, 0, 0  # stays for those who jump to it
    return [*ops[: place + 1], *put, *ops[place + 1 :]]


#: loads that may give a method and its receiver, and how much of the stack they take
_METHOD_LOADS = {"LOAD_METHOD": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 3}


def _arguments(code: CodeType, point: Point) -> tuple[list[str], tuple[int, ...]]:
    """Names of the parameters, and for each the number of the handed over value."""
    values = [f".{i}" for i, slot in enumerate(point.stack) if slot == VALUE]
    names = [*values, *point.bound]
    order = list(range(len(names)))
    if point.handled:
        names.append(".handled")
        order.append(len(values) + len(point.bound) + len(code.co_cellvars))
    first = _receiver(code)
    if first is not None and first in point.bound:
        index = names.index(first)
        names.insert(0, names.pop(index))
        order.insert(0, order.pop(index))
    elif first is not None and first in code.co_cellvars:
        names.insert(0, ".receiver")
        order.insert(0, -1 - len(values) - len(point.bound) - code.co_cellvars.index(first))
    return names, tuple(order)


def _cells(own: tuple[str, ...], free: tuple[str, ...], first: int, start: Op) -> list[Op]:
    """The beginning: cells from the closure, and those of `own` again in slots of their own, from `first` on."""
    head = from_bytes(named("COPY_FREE_VARS", len(free)), start) if free else []
    # whoever looks at the frame asks whether this was run
    head += [make("MAKE_CELL", first + i, like=start) for i in range(len(own))]
    head.append(make("RESUME", like=start))
    for i, name in enumerate(own):
        head += [
            make(current().load_cell, first + len(own) + free.index(name), like=start),
            make("STORE_FAST", first + i, like=start),
        ]
    return head


def _prologue(
    point: Point, start: Op, slots: dict[str, int], consts: list[Any], hidden: set[int]
) -> tuple[list[Op], list[tuple[int, int]]]:
    """`hidden`: slots with what an inlined comprehension put aside, where NULL is an unbound variable and no call's."""
    head: list[Op] = []
    offsets: list[tuple[int, int]] = []
    handled = len(consts) - 1
    for i, slot in enumerate(point.stack):
        if slot == NULL and i in hidden:
            head.append(make("LOAD_FAST_AND_CLEAR", slots[".unbound"], like=start))
        elif slot == NULL:
            head.append(make("PUSH_NULL", like=start))
        elif slot == VALUE:
            place = slots[f".{i}"]
            head += [make("LOAD_FAST", place, like=start), make("DELETE_FAST", place, like=start)]
        else:
            offsets.append((len(consts), int(slot)))
            head.append(make("LOAD_CONST", len(consts), like=start))
            consts.append(0)
    tagged = tuple(i for i, slot in enumerate(point.stack) if isinstance(slot, int))
    if tagged and current().tags_offsets:
        consts += [_core.tag_offsets, tagged]
        head += [*_call(len(consts) - 2, len(consts) - 1, start), make("POP_TOP", like=start)]
    if point.handled:
        place = slots[".handled"]
        call = from_bytes(current().calls[0], start)
        head += [
            make("LOAD_CONST", handled, like=start),
            make("LOAD_FAST", place, like=start),
            make("DELETE_FAST", place, like=start),
            *call,
            make("POP_TOP", like=start),
        ]
    head.append(make("JUMP_FORWARD", target=start, like=start))
    return head, offsets
