"""Script objects (TorchBind): placeholders whose methods are recorded, guarded by what the objects hold.

A class of C++ is known by its fake class (`torch._library.register_fake_class`), which is made of what
`__obj_flatten__` gives and has the methods that may be captured.  What an object holds is asked of itself at each call,
and guarded: kinds and sizes of tensors, values of all else.  Tensors in it are never inputs of a graph: the object is.

Calls of methods, and of operators that are given an object, are nodes of torch's own operator.  What a call gives is
what the object's fake gives, which changes with each call as the object itself will.  A tensor that an object was
given, held before or gave may be known to both sides from then on: nobody may write to it in the same graph, since
compilers take results of a node for memory of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..boundary.becomes.opaque import Opaque, answers_reads, callable_for, opaque_for
from ..boundary.import_rules import let_in_opaque, rule
from ..boundary.world import World
from ..graph.fx.targets import Target
from ..graph.fx.values import ObjectFacts, Step, Storage, Value
from ..graph.metadata.cache import VALUES
from ..graph.metadata.facts import SymbolicFacts, facts_of, new_stand_in
from ..graph.metadata.fakes import UNKNOWN
from ..graph.metadata.live_fakes import LiveOutcome, storage_of
from ..graph.metadata.wrappers import is_wrapper
from ..graph.state.torch_state import State
from ..graph.symbols.meanings import NO_MARKS
from ..graph.symbols.number_nodes import graph_values, numbers_in
from ..guards.kinds import immutable_leaf, tensor_facts, without_entries
from ..recording.asking import over_fakes
from ..recording.session import Recorder, Session
from ..torch_ports.modes import DisableTorchFunction
from ..torch_ports.operators import FakeScriptObject, call_torchbind
from ..torch_ports.operators import fake_class_registry as registry
from ..torch_ports.tensors import is_alias_of
from ..vocabulary.class_reads import qualname_of
from ..vocabulary.origins import Origin
from ..vocabulary.outside_exceptions import raise_outside
from ..vocabulary.reasons import Interrupt


class ScriptFacts(ObjectFacts):
    """The metadata of a script object: its class, and the fake, which changes as captured code calls methods."""

    __slots__ = ("fake", "name")

    def __init__(self, name: str, fake: registry.FakeScriptObject) -> None:
        self.name = name
        self.fake = fake


def class_name(obj: torch.ScriptObject) -> str:
    """The name of its class of C++."""
    return str(obj._type().qualified_name())


def fake_class(obj: torch.ScriptObject) -> Any:
    """The fake class that somebody registered for an object's class; None where methods have no fakes."""
    try:
        return registry._find_fake_class_for_script_object(obj) if not registry.tracing_with_real(obj) else None
    except Exception as error:
        raise_outside(error)
        return None


def contents(obj: torch.ScriptObject) -> Any:
    """Return the contents of an object, as its class declares them: pairs of a name and a value."""
    with DisableTorchFunction():
        return obj.__obj_flatten__()


def _is_known_by(name: str, fake: Any, now: Any) -> bool:
    return class_name(now) == name and fake_class(now) is fake


def _are_two(now: Any, other: Any) -> bool:
    """Two objects of Python do not stand for one of C++."""
    return not is_alias_of(now, other)


@rule(torch.ScriptObject)
def _import(world: World, value: torch.ScriptObject, origin: Origin) -> Any:
    seen = _known(world, value, origin)
    return let_in_opaque(world, value, origin) if seen is None else seen


def _known(world: World, value: torch.ScriptObject, origin: Origin) -> Opaque | None:
    """Import a script object; None where its class is not known."""
    fake = fake_class(value)
    if fake is None:
        return None
    others = [known for known in world.memo.values() if is_a(known.original, torch.ScriptObject)]
    if any(is_alias_of(known.original, value) for known in others):
        return None
    name = class_name(value)
    try:
        held = _held(world, contents(value), origin.to("ask", contents))
        seen = opaque_for(value, "opaque-object", f"of class {name}")
        recorder: Any = world.tensors
        if recorder.objects is None:
            recorder.objects = ScriptObjects(recorder)
        recorder.objects.meet(value, seen, name, fake, held, str(origin))
    except Interrupt as stop:  # it may still be passed around
        if stop.reason.id == "symbolic-number":
            raise
        return None
    except Exception as error:  # of the class, or of its fake
        raise_outside(error)
        return None
    world.guard(origin, "TYPE", type(value))
    world.guard(origin, "CHECK", (functools.partial(_is_known_by, name, fake), f"is a {name}"), "script")
    for known in others:
        words = f"is no other name of {known.origin}"
        world.guard(origin, "JOINT", (_are_two, words, (known.origin,)), words)
    world.register(value, seen, origin)
    return seen


def _held(world: World, value: Any, origin: Origin) -> Any:
    """A part of what an object holds, with stand-ins for tensors."""
    kind = type(value)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return _tensor(world, value, origin)
    if kind is tuple or kind is list:
        world.guard(origin, "TYPE", kind)
        world.guard(origin, "LEN", len(value))
        return kind([_held(world, item, origin.to("item", i)) for i, item in enumerate(value)])
    if kind is dict and all(map(immutable_leaf, value)):
        world.guard(origin, "TYPE", dict)
        world.guard(origin, "KEYS", tuple(value))
        return {key: _held(world, item, origin.to("item", key)) for key, item in value.items()}
    if not immutable_leaf(value):
        raise Interrupt("opaque-object", f"a script object that holds a {kind.__name__}")
    world.guard(origin, "EQ", value)
    return value


def _tensor(world: World, value: torch.Tensor, origin: Origin) -> Any:
    facts = tensor_facts(value)
    known = world.memo.get(id(value))
    if known is None:
        dims, marks = world.dynamism.dims(value, origin)
        if (dims or marks.strides) and not world.tensors.follows_contents():
            # compilers look at what the object holds now
            dims, marks = frozenset(), NO_MARKS
        seen = world.tensors.stand_in(value, str(origin), dims, marks)
        world.register(value, seen, origin, mutable=False)  # nothing of it is written in such graphs
        facts = without_entries(facts, *world.tensors.symbolic_entries(value))
    elif type(known.seen) is Opaque or is_wrapper(type(value)):
        raise Interrupt("opaque-object", "a script object that holds a tensor of an unknown kind")
    else:
        seen = known.seen
    world.guard(origin, "TENSOR", facts)
    return seen


def _method(obj: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(obj.wrapped_obj, name)(*args, **kwargs)


_CALL = Target(_method, "call_function", call_torchbind, "call_torchbind")


class ScriptObjects:
    """The script objects of one rehearsal."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.calls = 0
        self._fakes: dict[int, torch.Tensor] = {}  # of tensors that objects know, by id of their value
        self._known: set[int] = set()  # their memory

    def meet(self, obj: torch.ScriptObject, seen: Opaque, name: str, cls: Any, held: Any, place: str) -> None:
        """Know an external object, which captured code sees as `seen`; `held` is what it holds, over stand-ins."""
        recorder = self._recorder
        with DisableTorchFunction():
            contents = self._over_fakes(held)
            made = recorder.fakes.run(name, lambda _: cls.__obj_unflatten__(contents), [])
            fake = FakeScriptObject(made, name, None)
        methods = frozenset(obj._method_names())
        for method in methods:
            found = getattr(made, method, None)
            if callable(found):  # fakes of operators call them
                object.__setattr__(fake, method, found)
        value = Value(seen, ScriptFacts(name, fake), Storage(external=True))  # type: ignore[arg-type]  # no tensor
        recorder.adopt_input(value, obj, place)
        answers_reads(seen, lambda owner, read: _read(recorder, owner, made, read) if read in methods else None)

    def _over_fakes(self, held: Any) -> Any:
        if self._recorder.is_stand_in(held):
            return self._fake(self._recorder.value_of(held))
        if type(held) in (list, tuple):
            return type(held)([self._over_fakes(item) for item in held])
        return {key: self._over_fakes(item) for key, item in held.items()} if type(held) is dict else held

    def _fake(self, value: Value) -> Any:
        if type(value.facts) is ScriptFacts:
            return value.facts.fake
        fake = self._fakes.get(id(value))
        return self._keep(value, self._recorder.fakes.make(value.facts)) if fake is None else fake

    def _keep(self, value: Value, fake: torch.Tensor) -> torch.Tensor:
        _core.tensors_meet()
        value.storage.shared = True
        self._fakes[id(value)] = fake
        self._known.add(storage_of(fake))
        return fake

    def record(self, target: Target, kept: list[Any], named: dict[str, Any], found: list[Value], state: State) -> Any:
        """A call that is given a script object.  Torch function must be off."""
        recorder = self._recorder
        found = list(dict.fromkeys(found))
        self._check(target, found, state)
        self.calls += 1
        result = self._run(target, kept, named, found)
        recorder.note_effect(target, LiveOutcome(None, UNKNOWN, (), ()), found)
        numbers = numbers_in([kept, named]) if recorder.symbols is not None else []
        read = graph_values(recorder.symbols, numbers) if recorder.symbols is not None else []
        step = Step(target, kept, named, [*found, *read], state, True)
        answer = self._result(target, step, result, ())
        recorder.tape.append(step)
        return answer

    def _check(self, target: Target, found: Sequence[Value], state: State) -> None:
        recorder = self._recorder
        if recorder.in_transform() or recorder.wrapped is not None:
            raise Interrupt("torch-operation", f"{target.name} of a script object here")
        if state.grad and any(value.facts.requires_grad for value in found):  # torch's operator has no backward
            raise Interrupt("torch-operation", f"{target.name} of a script object with a tensor that requires grad")
        if any(value.storage.written for value in found) and not recorder.runs_as_is():
            raise Interrupt("torch-operation", f"{target.name} of a script object with a tensor that was written to")

    def _run(self, target: Target, kept: list[Any], named: dict[str, Any], found: list[Value]) -> Any:
        """Run a method over the fakes, once: they change."""
        call, mode = over_fakes(self._recorder, target, kept, named, found), self._recorder.fakes.mode
        runs: list[None] = []

        def once(fakes: list[Any]) -> Any:
            if runs:
                raise Interrupt("tensor-item", f"{target.name} of a script object")
            runs.append(None)
            return call(fakes)

        mode.written.clear()
        result = self._recorder.fakes.run(target.name, once, [self._fake(value) for value in found])
        if mode.written:
            raise Interrupt("torch-operation", f"{target.name} of a script object, which writes to a tensor,")
        return result

    def _result(self, target: Target, step: Step, raw: Any, path: tuple[int, ...]) -> Any:
        kind = type(raw)
        if is_a(raw, torch.Tensor):
            return self._tensor(target, step, raw, path)
        if kind is list or kind is tuple:
            return kind([self._result(target, step, item, (*path, i)) for i, item in enumerate(raw)])
        if kind in VALUES or kind in (str, torch.SymInt, torch.SymFloat, torch.SymBool):
            return self._recorder.shown(raw)
        raise Interrupt("torch-operation", f"{target.name}, which gives an object of type {qualname_of(kind)}")

    def _tensor(self, target: Target, step: Step, fake: torch.Tensor, path: tuple[int, ...]) -> torch.Tensor:
        recorder = self._recorder
        if fake.layout is not torch.strided:
            raise Interrupt("tensor-kind", f"{target.name} gives layout {fake.layout}")
        facts = facts_of(fake)
        if facts.requires_grad and not recorder.runs_as_is():  # compilers know no history but that of inputs
            raise Interrupt("torch-operation", f"{target.name} of a script object, which gives a tensor with a history")
        habits = recorder.policy.habits
        if storage_of(fake) in self._known and not habits.keeps_memory and not recorder.runs_as_is():
            # compilers use the memory of a result again when nobody needs it any more
            raise Interrupt("torch-operation", f"{target.name} of a script object, which gives a tensor it knows")
        value = Value(new_stand_in(facts), facts, Storage(external=False))
        value.step, value.path, value.exact = step, path, False
        self._keep(value, fake)
        recorder.adopt(value)
        if type(facts) is SymbolicFacts:
            recorder.with_symbols().new_sizes(value)
        return value.stand_in


def _read(recorder: Recorder, owner: Opaque, fake: Any, name: str) -> Opaque | None:
    """A method of a script object that its fake has too."""
    if not callable(getattr(fake, name, None)):
        return None

    def call(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with DisableTorchFunction():
            return recorder.record(_CALL, (owner, name, *args), kwargs)

    return callable_for(torch.ScriptMethod, f"a method of a script object ({name})", call)
