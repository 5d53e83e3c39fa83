"""Full backward hooks of modules: `register_full_backward_hook` and `register_full_backward_pre_hook`, those of all
modules too.

Each hook is rehearsed into a graph of its own, as hooks on results are (tensor_hooks.py), so it may change nothing
outside of itself.  Modules of one tensor argument and one tensor result only: which gradients of several are there
when a hook runs is known to the backward alone.
"""

from __future__ import annotations

import dis
import types
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import BackwardHook

from .. import _core
from .._core import is_a
from ..calls.call_tables import substitute
from ..graph.fx.node_functions import hooked_argument, hooked_result
from ..graph.fx.values import Body, Value
from ..graph.metadata.facts import Facts, new_stand_in
from ..graph.symbols.numbers import Float, Int
from ..higher_order.bodies import fresh, values_in
from ..higher_order.deferred_code import runs_later
from ..higher_order.operators import pure_body, record_step
from ..overriding.opened_functions import with_own_code
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.reasons import Interrupt
from .autograd_function import backward_state
from .tensor_hooks import Handle

if TYPE_CHECKING:
    from ..recording.session import Recorder, Session

_NAME = "a module's backward hook"
_WAITING = "waiting for its result"  # the note on a pair of hooks between argument and result
_setup_input, _setup_output = map(with_own_code, (BackwardHook.setup_input_hook, BackwardHook.setup_output_hook))


def _hooked(session: Session, args: Any) -> int | None:
    """The place of the one tensor that gets a hook; None where there is none."""
    found = [i for i, arg in enumerate(args) if is_a(arg, torch.Tensor)]
    if not is_grad_enabled() or not any(session.value_of(args[i]).facts.requires_grad for i in found):
        return None
    if (
        len(found) > 1
        or type(args) is not tuple
        or session.in_transform()
        or type(session.value_of(args[found[0]]).facts) is not Facts
    ):
        raise Interrupt(
            "torch-operation", "a full backward hook of a module with several tensors, or with a tensor of a subclass,"
        )
    return found[0]


@substitute(BackwardHook.setup_input_hook)
def _input(session: Session, self: Any, args: Any) -> Any:
    place = _hooked(session, args)
    if place is None:
        return _core.captured(_setup_input, (self, args), None)
    recorder = session.recorder
    made = _same(
        recorder,
        record_step(recorder, hooked_argument, [recorder.value_of(args[place])], {}, [recorder.value_of(args[place])]),
        recorder.value_of(args[place]),
    )
    vars(self).update({"n_inputs": len(args), "input_tensors_index": [place], _WAITING: _Waiting(made)})
    return (*args[:place], made, *args[place + 1 :])


class _Waiting(Handle):
    """Keeps a pair of hooks from leaving the capture before its result is there: nothing in the graph runs them yet."""

    __slots__ = ("argument",)

    def __init__(self, argument: torch.Tensor) -> None:
        super().__init__()
        object.__setattr__(self, "argument", argument)


@substitute(BackwardHook.setup_output_hook)
def _output(session: Session, self: Any, args: Any) -> Any:
    waiting = vars(self).pop(_WAITING, None)
    results = args if is_a(args, tuple) else (args,)
    place = _hooked(session, results)
    if place is None:
        return _core.captured(_setup_output, (self, args), None)
    recorder, about = session.recorder, vars(self)
    if waiting is None and about["user_hooks"]:
        raise Interrupt("torch-operation", "a full backward hook of a module whose arguments have no gradient")
    value = recorder.value_of(results[place])
    argument = None if waiting is None else recorder.value_of(object.__getattribute__(waiting, "argument"))
    before = [_body(session, hook, about["module"], [(value, place, len(results))]) for hook in about["user_pre_hooks"]]
    after = (
        []
        if argument is None
        else [
            _body(
                session,
                hook,
                about["module"],
                [(argument, about["input_tensors_index"][0], about["n_inputs"]), (value, place, len(results))],
            )
            for hook in about["user_hooks"]
        ]
    )
    recorder.gradients.has_module_hooks = True
    step = record_step(
        recorder,
        hooked_result,
        [value, argument, tuple(before), tuple(after)],
        {},
        [value, *([] if argument is None else [argument]), *(one for _, around in (*before, *after) for one in around)],
    )
    made = _same(recorder, step, value)
    about.update({"n_outputs": len(results), "output_tensors_index": [place]})
    return (*results[:place], made, *results[place + 1 :]) if is_a(args, tuple) else made


def _same(recorder: Recorder, step: Any, value: Value) -> torch.Tensor:
    """The tensor that a function gives which returns what it is given: another one, over the same memory."""
    facts = value.facts.but(requires_grad=True, is_leaf=False)
    with DisableTorchFunction():
        made = Value(new_stand_in(facts), facts, value.storage, "custom")
    made.step, made.exact = step, value.exact
    return recorder.adopt(made)


def _body(
    session: Session, hook: Any, module: Any, rows: list[tuple[Value, int, int]]
) -> tuple[Body, tuple[Value, ...]]:
    """A hook's graph: takes the gradients of `rows` (value, place, count) and gives the first one's, or None."""
    recorder = session.recorder
    grads, given = [], []
    for value, place, count in rows:
        grad = fresh(
            recorder,
            value.facts.but(requires_grad=False, is_leaf=True, is_conj=False, is_neg=False),
            "grad",
            exact=False,
        )
        grads.append(grad)
        given.append(tuple(grad if i == place else None for i in range(count)))
    with backward_state():
        body = pure_body(session, _NAME, hook, (module, *given))
    result, (_, place, count) = body.result, rows[0]
    if result is not None:
        if type(result) not in (tuple, list) or len(result) != count or not recorder.is_stand_in(result[place]):
            raise Interrupt("torch-operation", f"{_NAME} that gives something else than gradients,")
        result = result[place]
        facts, wanted = recorder.value_of(result).facts, rows[0][0].facts
        if (facts.size, facts.dtype, facts.device) != (wanted.size, wanted.dtype, wanted.device):
            raise Interrupt("torch-operation", f"{_NAME} that gives a gradient of another kind")
    graph, around = body.close(recorder, values_in(recorder, grads), result, takes=(Int, Float))
    runs_later(session, _NAME, hook, *([module] if _uses_first(hook) else []), around=around)
    return Body(graph, "hook_body"), tuple(around)


def _uses_first(hook: Any) -> bool:
    """Return whether a hook may look at the module it is handed."""
    code = hook.__code__ if is_a(hook, types.FunctionType) else None
    if code is None or not code.co_argcount or code.co_varnames[0] in code.co_cellvars:
        return True
    names = [one.argval for one in dis.get_instructions(code) if "LOAD_FAST" in one.opname]
    return any(code.co_varnames[0] in (name if is_a(name, tuple) else (name,)) for name in names)
