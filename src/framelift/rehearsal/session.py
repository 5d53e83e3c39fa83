"""One rehearsal: the Python side of the probes.  The native core calls the methods here, always paused.

What an external value becomes is the world's business, what a call becomes is call_rule.py's, what a torch call
becomes the recorder's.  This file only joins them.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from opcode import opmap
from typing import Any, NoReturn

import torch

from .. import _core, config
from .._core import id, is_a
from ..boundary.attributes import classes, function_attributes, instances
from ..boundary.becomes.containers import note_attribute_changes
from ..boundary.becomes.copied_objects import was_raised_inside
from ..boundary.becomes.opaque import Opaque
from ..boundary.facts.finalisers import end_is_seen_inside, is_referred_to
from ..boundary.facts.released_objects import check_endings
from ..boundary.gateway import entries_of_tuple, fact_of, has_plain_class, is_handle_class, let_in
from ..boundary.import_rules import MAY_HAVE_ATTRIBUTES, let_in_opaque
from ..boundary.records import ABSENT, DELETED
from ..boundary.world import World
from ..bytecode.resume import Point, point_of, read_by_index, rebound
from ..graph.metadata.facts import forget_facts
from ..graph.symbols.numbers import NUMBERS
from ..guards.kinds import forget_facts as forget_guarded_facts
from ..higher_order.triton_kernels import meet_triton
from ..overriding import modes, tensor_attributes
from ..recording import described_tape, grad_flags, relations_of_values
from ..recording.known_values import guard_result, guard_text, guard_values
from ..recording.recorder_parts import Policy
from ..substitutes.marks import disabled, follow_options, forbidden
from ..substitutes.numbers import tensor_truths
from ..substitutes.numbers.pure_calls import taken_by_c_code
from ..substitutes.python import frame_access, identity, python_warnings
from ..substitutes.python.mappings import as_dict
from ..substitutes.python.shown_addresses import cuts_text, known_text
from ..substitutes.torch.collectives import meet_functional_collectives
from ..substitutes.torch.distributed_tensors import meet_distributed_tensors
from ..torch_ports.operators import OpNamespace, Ops
from ..vocabulary.class_reads import module_of, name_of, qualname_of
from ..vocabulary.code_knowledge import knowledge_of
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.origins import arg, const
from ..vocabulary.plain_types import FUNCTIONS
from ..vocabulary.reasons import Interrupt
from . import (
    call_rule,
    called_functions,
    class_patterns,
    imports,
    own_errors,  # noqa: F401  (registers its judge with the core)
)
from .break_errors import BLOCKS
from .error_texts import ClassNames
from .readers import SEALED, reader_of
from .rehearsed_scene import RehearsedScene, via

#: for who wants no break, containers so many times larger are copied and guarded
_AT_A_PRICE = 16
_USUAL = Policy()
#: the root's parameters of which nothing but some entries are read
_READ_BY_INDEX = FeatureState(read_by_index)
_ASYNC = 0x80 | 0x200  # CO_COROUTINE, CO_ASYNC_GENERATOR

#: containers that opcodes fill while they lie on the stack, and these opcodes
_BUILT = (list, set, dict)
_BUILDING = frozenset(
    opmap[name] for name in "LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE".split()
)


class End:
    """How the program of a rehearsal ended."""

    plan: Any = None  # an exits.EntryPlan; of an export, an Exit
    result: Any = None  # what the root returned, or holds where it was stopped
    is_stopped = False  # the exit is a break: the frame is resumed after it
    point: Point | None = None  # where the root was stopped
    raised_at = -1  # offset at which the root met an exception that has to be raised again
    left_at = ""  # where the exception was raised that left the root


class Rehearsal(RehearsedScene):
    """State of one rehearsal.  `plan` is what `plan_return(session, value)` made of the root's return value."""

    def __init__(
        self,
        function: types.FunctionType,
        plan_return: Callable[[Rehearsal, Any], Any],
        policy: Policy = _USUAL,
        moment: modes.Moment | None = None,
        tape: list[Any] | None = None,
    ) -> None:
        self.function, self.policy = function, policy
        self.plan_return = plan_return
        self.end = End()
        # the value of a stand-in in this call, where that may be a constant of the capture
        self.example: Callable[[Any], Any] | None = None
        self.addresses: set[int] = set()  # numbers that came from where objects made inside lie in memory
        self.may_break = True  # what comes behind a break can be what it is in plain Python
        self.outside: BaseException | None = None  # an external exception that ended the rehearsal
        self.ended: BaseException | None = None  # whatever ended it early
        self.generators: list[tuple[int, int]] = []  # (root's unit, root's probes) whenever a generator was made
        self.times: list[
            tuple[types.CodeType, int, float, float]
        ] = []  # (code, frames, seconds in it, with what it calls)
        self.time_tree: list[tuple[int, types.CodeType, int, float, float]] = []  # (depth, as above), callers first
        self.function_origin = const(function)
        moment = moment or modes.Moment(_core.torch_state(), [])
        self.moment = moment
        self.recorder = described_tape.recorder_for(self, tape)
        largest = config.large_container * (_AT_A_PRICE if policy.fullgraph else 1)
        self.world = World(self.recorder, policy.dynamism, largest)
        self.features = self.world.features
        self.world.of_tensor = functools.partial(tensor_attributes.by_descriptor, self)
        self.recorder.callbacks.ask = functools.partial(fact_of, self.world)
        self.recorder.callbacks.grad_of, self.recorder.callbacks.switch = (
            self._grad_of,
            functools.partial(grad_flags.switch, self),
        )
        self.recorder.known_values.guard_values = self._guard_values
        self.recorder.known_values.guard_result = self._guard_result
        self.recorder.callbacks.answer = functools.partial(relations_of_values.answer, self)
        self.recorder.callbacks.guard_text = functools.partial(guard_text, self.world)
        known = knowledge_of(function.__code__)
        self.world.functions.read_receivers = None if known.reads_receivers else known.lesson("reads_receivers")
        follow_options()
        meet_triton()
        meet_distributed_tensors()
        meet_functional_collectives()
        self.names = ClassNames(self.world)
        self.recorder.callbacks.dispatch = functools.partial(modes.dispatch, self)
        self.recorder.subclasses_off = moment.subclasses_off
        # by the id of the class of an object, which decides, the function that reads its attributes
        self._readers: dict[int, Callable[[World, Any, str], Any]] = {}

    # ---- the root -------------------------------------------------------------------------------------------------

    def start(self, locals_: tuple[Any, ...]) -> tuple[Any, ...]:
        """Import the root's arguments.  A frame captured for its code hands over its function as one more local."""
        code = self.function.__code__
        names = code.co_varnames
        count = (
            code.co_argcount
            + code.co_kwonlyargcount
            + bool(code.co_flags & _VARARGS)
            + bool(code.co_flags & _VARKEYWORDS)
        )
        if len(locals_) > count:
            self.function_origin = arg(count, code.co_name)
            self.world.guard(self.function_origin, "TYPE", types.FunctionType)
            self.world.guard(self.function_origin.to("globals"), "IS", self.function.__globals__)
        if code.co_flags & _ASYNC:
            raise Interrupt("coroutine", code.co_qualname)
        self.world.follow(self._readers)
        modes.import_modes(self, self.moment)
        modes.import_transforms(self, self.moment)
        self.world.ends.rebound = lambda: [one for name, one in zip(names, locals_[:count]) if name in rebound(code)]
        for i, value in enumerate(locals_[:count]):
            if names[i] not in self.policy.unread and has_plain_class(value) and is_handle_class(type(value)):
                self.world.owners.met(value, arg(i, names[i]))  # before the others: one may be its dictionary
        try:
            return tuple([self._argument(i, names[i], value) for i, value in enumerate(locals_[:count])])
        finally:
            self.world.guard.line = None

    def _argument(self, index: int, name: str, value: Any) -> Any:
        code = self.function.__code__
        spread = code.co_argcount + code.co_kwonlyargcount
        if name in self.policy.unread:
            return self.world.handed_on(value, arg(index, name))
        self.world.guard.line = (code, ~index)  # its first use, found when somebody asks
        if name.startswith(".") and _core.type_lookup(type(value), "__next__", None) is not None:
            # a loop that is resumed: its position is not a fact to guard
            return let_in_opaque(self.world, value, arg(index, name))
        if type(value) is tuple and (wanted := _READ_BY_INDEX.of(self, self.function.__code__).get(name)):
            return entries_of_tuple(self.world, value, arg(index, name), wanted)
        seen = let_in(self.world, value, arg(index, name))
        if (
            name.startswith(".")
            and any(type(value) is kind for kind in _BUILT)
            and type(seen) is not type(value)
            and _BUILDING.intersection(code.co_code[::2])
        ):
            # its opcodes ask nobody
            raise Interrupt("too-large", f"a {name_of(type(value))} of {len(value)} entries that is being built")
        # **kwargs: the dictionary itself is the frame's own
        if index >= spread and self.world.shadows.get(id(seen)):
            self._forget_shadow(seen)
        return seen

    def _forget_shadow(self, seen: Any) -> None:
        self.world.shadows.pop(id(seen))
        self.world.by_seen.pop(id(seen), None)

    def finish(self, value: Any) -> bool:
        """The root returned `value`."""
        self._plan_exit(value)
        return True

    def _plan_exit(self, value: Any) -> None:
        self.end.result = value
        note_attribute_changes(self.world)
        for look in self.world.ends.finishing:
            look()
        check_endings(self.world)
        modes.note_changes(self)
        modes.guard_nesting(self)
        BLOCKS.of(self).note_changes(self.world)
        self.end.plan = self.plan_return(self, value)

    def break_off(self, handed: Any) -> None:
        """The root was stopped in the middle of its work: plan what the frame holds, while it is whole."""
        self.recorder.mark_end()
        self.recorder.check_end()
        check_endings(self.world)
        point, values = point_of(
            handed, lambda value: end_is_seen_inside(self.world, value) or is_referred_to(value, handed.stack)
        )
        raised = next((v for v in values if issubclass(type(v), BaseException) and was_raised_inside(v)), None)
        if raised is not None:  # its traceback cannot be made again: the break has to come before it was raised
            self.end.raised_at = raised.__traceback__.tb_lasti
            raise Interrupt("result-object", f"{name_of(type(raised))} that was raised inside")
        self.end.is_stopped = True
        self._plan_exit(values)
        self.end.point = point

    def close(self) -> None:
        """Let go of the program's objects now, not when the collector comes: they may have finalisers."""
        if self.__dict__:
            _keep_until_collected(self.world)
            forget_facts()
            forget_guarded_facts()
            self.recorder.close()
            self.world.close()
            self.__dict__.clear()

    def refuse(self, code: types.CodeType, detail: Any) -> NoReturn:
        """The frame cannot be watched.  `detail`: in words, or the handler that stands for the root itself."""
        if callable(detail):
            if detail in (disabled, forbidden):
                detail(self, self.function, (), {})
            detail = None
        raise Interrupt(
            *(detail.split("|", 1) if detail and "|" in detail else ("unsupported-code", detail or code.co_qualname))
        )

    def _grad_of(self, tensor: torch.Tensor) -> Any:
        """The `.grad` of an input: external like any attribute."""
        record = self.world.memo[id(tensor)]
        return let_in(self.world, _core.of_tensor(tensor, "grad"), record.origin.to("attr", "grad"))

    def _guard_values(self, tensors: list[torch.Tensor]) -> bool:
        policy = self.policy
        return policy.guesses and guard_values(self.world, self.function.__code__, tensors, policy.fullgraph)

    def _guard_result(self, tensors: list[torch.Tensor], check: Any) -> bool:
        policy = self.policy
        return policy.guesses and guard_result(self.world, self.function.__code__, tensors, check, policy.fullgraph)

    # ---- functions and classes ------------------------------------------------------------------------------------

    note_function, classify = called_functions.note_function, staticmethod(call_rule.classify)
    note_class, unwrap = via("world.classes.note_class"), call_rule.unwrap

    def note_unbound(self, function: types.FunctionType) -> None:
        called_functions.note_unbound(self.world, function)

    def note_receiver(self, cls: type, names: list[str]) -> None:
        """A function that a class holds under these names runs on it, or on an instance of it."""
        for name in names:
            self.world.classes.lookup(cls, name)

    def class_attribute(self, cls: type, name: str) -> tuple[int, Any]:
        return classes.class_attribute(self.world, cls, name)

    # ---- globals and cells ----------------------------------------------------------------------------------------

    def load_global(self, globals_: dict[str, Any], name: str, builtins_: dict[str, Any]) -> Any:
        world = self.world
        world.owners.holds_globals(globals_)
        for table in (globals_, builtins_):
            pending = world.overlay.get((id(table), name), ABSENT)
            if pending is not ABSENT and pending is not DELETED:
                return pending
            if pending is ABSENT:
                if name in table:
                    return let_in(world, table[name], const(table).to("item", name))
                world.guard(const(table), "ABSENT", name, name)
        raise NameError(f"name {name!r} is not defined", name=name)

    def store_global(self, globals_: dict[str, Any], name: str, value: Any) -> None:
        self.world.owners.holds_globals(globals_)
        instances.write_global(self.world, globals_, name, value)

    def delete_global(self, globals_: dict[str, Any], name: str) -> None:
        world = self.world
        world.owners.holds_globals(globals_)
        pending = world.overlay.get((id(globals_), name), ABSENT)
        if pending is ABSENT and name in globals_:  # whether there is something to delete is read, not only written
            let_in(world, globals_[name], const(globals_).to("item", name))
        elif pending is ABSENT:
            world.guard(const(globals_), "ABSENT", name, name)
        if pending is DELETED or pending is ABSENT and name not in globals_:
            raise NameError(f"name {name!r} is not defined", name=name)
        instances.write_global(world, globals_, name, DELETED)

    def load_cell(self, cell: types.CellType, name: str | tuple[str]) -> Any:
        world = self.world
        origin = world.cell_origin(cell)
        pending = world.overlay.get((id(cell), ""), ABSENT)
        if pending is ABSENT:
            try:
                return let_in(world, cell.cell_contents, origin.to("contents"))
            except ValueError:
                world.guard(origin, "EMPTY", None)
        elif pending is not DELETED:
            return pending
        if is_a(name, tuple):
            raise UnboundLocalError(f"cannot access local variable {name[0]!r} where it is not associated with a value")
        raise NameError(
            f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope",
            name=name,
        )

    def store_cell(self, cell: types.CellType, value: Any) -> None:
        self.world.overlay[(id(cell), "")] = value
        self.world.write("setcell", cell, None, value)

    def delete_cell(self, cell: types.CellType, name: str | tuple[str]) -> None:
        self.load_cell(cell, name)
        self.world.overlay[(id(cell), "")] = DELETED
        self.world.write("delcell", cell, None, None)

    # ---- attributes -----------------------------------------------------------------------------------------------

    def load_attr(self, obj: Any, name: str) -> Any:
        read = self._readers.get(id(type(obj)))
        if read is not None:
            return read(self.world, obj, name)
        if is_a(obj, _OPERATOR_SPACES):
            getattr(obj, name, None)  # torch makes operators when they are first asked for, and keeps them
            return reader_of(obj)(self.world, obj, name)
        shown = frame_access.READERS.get(type(obj))
        if shown is not None:
            return shown(self, obj, name)
        self.world.keep.append(type(obj))
        read = self._readers[id(type(obj))] = reader_of(obj)
        return read(self.world, obj, name)

    def test_attr(self, obj: Any, name: str) -> Any:
        """`load_attr` for a value that is asked for its truth alone."""
        known = self._readers.get(id(type(obj)))
        usual = (known or reader_of(obj)) is instances.read_instance and type(obj) not in frame_access.READERS
        return False if usual and instances.is_empty_table(self.world, obj, name) else self.load_attr(obj, name)

    def fall_back(self, obj: Any, name: str) -> tuple[Any, ...]:
        """Call `__getattr__` where a property raised AttributeError; empty where there is none."""
        return instances.fallback_read(self.world, obj, name)

    def store_attr(self, obj: Any, name: str, value: Any) -> None:
        if is_a(obj, torch.Tensor):
            self.store_tensor(obj, name, value)
        elif is_a(obj, type):
            classes.write_class(self.world, obj, name, value)
        elif type(obj) in FUNCTIONS:
            function_attributes.write_function(self.world, obj, name, value)
        elif is_a(obj, (types.MethodType, super)):
            setattr(obj, name, value)  # raises, as it does outside
        elif is_a(obj, SEALED):
            self._check_unsealed(obj, name)
            _core.natively(setattr, (obj, name, value), None)
        else:
            instances.write_instance(self.world, obj, name, value)

    def _check_unsealed(self, obj: Any, name: str) -> None:
        """Only instances of the program's own classes, made inside, are written to."""
        if (
            not _core.is_python_class(type(obj))
            or id(obj) in MAY_HAVE_ATTRIBUTES.of(self)
            or is_a(obj, call_rule.OPERATIONS)
        ):
            raise Interrupt("effect-object", f"{qualname_of(type(obj))}.{name}")

    def delete_attr(self, obj: Any, name: str) -> None:
        if is_a(obj, type):
            classes.delete_class(obj, name)
        elif is_a(obj, torch.Tensor):
            tensor_attributes.delete(self, obj, name)
        elif type(obj) in FUNCTIONS:
            function_attributes.delete_function(self.world, obj, name)
        elif is_a(obj, types.MethodType):
            delattr(obj, name)  # raises, as it does outside
        elif is_a(obj, super):
            raise Interrupt("effect-object", f"{qualname_of(type(obj))}.{name}")
        elif is_a(obj, SEALED):
            self._check_unsealed(obj, name)
            _core.natively(delattr, (obj, name), None)
        else:
            instances.delete_instance(self.world, obj, name)

    load_tensor, store_tensor = tensor_attributes.load, tensor_attributes.store

    # ---- imports, with, match -------------------------------------------------------------------------------------

    import_name, match_class = imports.import_name, staticmethod(class_patterns.match_class)
    match_kind = class_patterns.match_kind

    def import_from(self, module: types.ModuleType, name: str) -> Any:
        return imports.import_from(self.world, module, name)

    def check_with(self, manager: Any) -> Any:
        cls = type(manager)
        if cls is torch.device:
            return modes.DeviceBlock(manager)
        if not _core.is_python_class(cls) and not is_a(manager, Opaque) and cls not in call_rule.KNOWN_CONTEXTS:
            raise Interrupt("opaque-object", f"{module_of(cls)}.{qualname_of(cls)}")
        return None

    #: a method ends with a symbolic number; C code is about to warn; a handler of the program begins; a text was made
    answered, warned = staticmethod(taken_by_c_code), python_warnings.is_unheard
    caught, shows_address = via("names.caught"), known_text
    #: `is` between values that may be alike without being one object; `item in container` of tensors; `**mapping`
    same_object, contains_tensor = identity.same_object, tensor_truths.contains_tensor
    spread = staticmethod(as_dict)

    def note_order(self, elements: Any) -> None:
        """A set is about to be walked, maybe by C code: its order follows from the addresses of its elements."""
        found = set.copy(elements) if is_a(elements, set) else frozenset.copy(elements)
        for element in found if len(found) > 1 else ():
            self._note_address(element)

    def _note_address(self, element: Any) -> None:
        if self.is_stand_in(element) and self.value_of(element).external is None:
            return  # made inside: its address is another at each call, and any order may come of it
        if is_a(element, torch.Tensor):
            raise Interrupt("unsupported-code", "a walk over a set of tensors")
        record = self.world.by_seen.get(id(element))
        if record is not None and record.origin.step != "const":
            self.world.guard(record.origin, "IS", record.original)
        for part in identity.hashed_parts(element):
            self._note_address(part)

    def cut(self, how: Any, _values: Any) -> None:
        """A template, or what stands behind the colon of an f-string, may cut the text of an object."""
        if cuts_text(how):
            raise Interrupt("unknown-callable", "the text of an object that is cut")

    def formatted(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values that a text is formatted with as plain values: they are in the text for good."""
        return tuple(one.value() if type(one) in NUMBERS else one for one in tuple.__iter__(values))

    # ---- calls ----------------------------------------------------------------------------------------------------

    def deny(self, callable_: Any, detail: Any) -> NoReturn:
        raise Interrupt("unknown-callable", detail or call_rule.describe(callable_))

    def deny_finalised(self, cls: type, _detail: Any) -> NoReturn:
        raise Interrupt("unknown-callable", call_rule.finalised(cls))

    def deny_handle(self, callable_: Any, _detail: Any) -> NoReturn:
        raise Interrupt("callable-on-handle", call_rule.describe(callable_))


def _keep_until_collected(world: World) -> None:
    """Objects that guards begin at live until the next collection, as what is in a cycle does: the first calls of an
    entry may come while nobody else holds them.
    """
    plain = (tuple, dict, types.FunctionType)
    keys = [guard.origin.root.key for guard in world.guards]
    roots: list[Any] = [key for key in keys if not is_a(key, plain) and type(key) is not type]
    roots.append(roots)


_OPERATOR_SPACES = (Ops, OpNamespace)
_VARARGS, _VARKEYWORDS = 0x4, 0x8  # code flags
