"""State after a graph that fails: torch's settings, random generators and inputs are put back as they were before it
ran.

The call is then left to eager mode, with its own lines, effects and handlers.  So it is where data is not what the
rehearsal assumed of it.  A compiled graph that fails where the same graph, uncompiled, does not is the compiler's
defect: its error leaves the call.  A graph that fails where eager mode does not is reported, and so is an
exception that left the frame in the rehearsal alone.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ... import _core, config
from ..._core import insist, is_a
from ...exc import InternalError
from ...exits import Lines
from ...graph.analysis.infallible import changes_history, fails_late, in_handler, writes_uncounted
from ...graph.fx.node_functions import AssumptionFailed
from ...graph.metadata.fakes import UNKNOWN
from ...graph.metadata.wrappers import is_wrapper
from ...graph.state.torch_state import SavedState, autocast_nesting
from ...recording.assumptions import SMALL
from ...recording.recorder import Finished
from ...torch_ports.autograd import top_saved_hooks, unsafe_set_version_counter
from ...torch_ports.graphs import LazyGraphModule
from ...vocabulary.outside_exceptions import code_of, innermost_trace, raise_outside
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..records.captures import Capture


class Left(Exception):
    """The exception that left the frame in the rehearsal, in words. It stays in framelift: the eager frame raises
    it.
    """


def states() -> tuple[Any, list[torch.Tensor] | None]:
    """The states of torch's own generators of random numbers."""
    return _core.generator_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None


def put_back(cpu: Any, cuda: list[torch.Tensor] | None) -> None:
    """Give torch's own generators these states."""
    _core.restore_generator(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state_all(cuda)


def place_of(error: BaseException) -> str:
    """Where an exception was raised."""
    trace = innermost_trace(error)
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "?"


def left_words(error: BaseException, place: str) -> str:
    """Describe the exception that left the frame in the rehearsal."""
    # not str(error), which may be code of the program
    shown = [str(one) for one in error.args if type(one) in (str, int)]
    return f"{': '.join([type(error).__name__, *shown])} ({place})"


def raising(run: Callable[..., Any] | None, words: str) -> Callable[..., Any]:
    """The run of an entry whose frame an exception leaves: plain Python has the call, where `run` finds that the entry
    is for it, and is expected to raise what `words` say.
    """

    def entry(inputs: tuple[Any, ...], externals: tuple[Any, ...]) -> Any:
        result = run(inputs, externals) if run is not None else _core.PLAIN
        if result is _core.PLAIN:
            raise Left(words)
        return result

    return entry


def run_uncompiled(module: Any, *inputs: Any) -> Any:
    """The graph as it was recorded."""
    LazyGraphModule.force_recompile(module)
    return module.forward(*inputs)  # not by calling the module: FX prints its errors


class _Failed(threading.local):
    """`again`: a run of the graph that just failed in this thread, uncompiled, on the same inputs; kept where somebody
    `waits` for it.
    """

    waits = False
    again: Callable[[], Any] | None = None


_failed = _Failed()


def noting_failures(
    graph: Callable[..., Any], uncompiled: Callable[[], Callable[..., Any]], at_once: bool
) -> Callable[..., Any]:
    """`graph`, whose failures are looked into: `at_once`, or once what it changed was taken back (`undoing`)."""

    def failed(error: BaseException, inputs: tuple[Any, ...]) -> None:
        if is_a(error, AssumptionFailed) or _is_of_hooks(error):
            return
        raise_outside(error)
        if at_once:
            _blame_the_compiler(lambda: uncompiled()(*inputs))
        elif _failed.waits:
            _failed.again = lambda: uncompiled()(*inputs)

    return _core.GraphCall(graph, failed)


def _blame_the_compiler(again: Callable[[], Any]) -> None:
    """An error of a compiled graph leaves the call where the same graph does not fail uncompiled: plain Python would
    hide the compiler's defect.
    """
    before = states()
    try:
        again()
    except Exception as error:  # noqa: BLE001  about the data, then: plain Python raises what the program raises
        raise_outside(error)
        return
    finally:
        insist(lambda: put_back(*before))
    _core.stands()


def checked(graph: Callable[..., Any], count: int, draws: bool) -> Callable[..., Any]:
    """`graph` without its last `count` results, each of which is true where an assumption is wrong.

    `draws`: the graph may draw random numbers.
    """

    def run(*inputs: Any) -> Any:
        before = states() if draws else None
        try:
            results = graph(*inputs)
            if any(map(bool, results[-count:])):
                raise AssumptionFailed
        except Exception:
            if before is not None:
                insist(functools.partial(put_back, *before))
            raise
        return results[:-count]

    return run


def under(graph: Callable[..., Any], around: Callable[[], Any]) -> Callable[..., Any]:
    """`graph`, run under the settings it was made for, or with somebody who tidies up."""

    def run(*inputs: Any) -> Any:
        with around():
            return graph(*inputs)

    return run


def keeping_settings(graph: Callable[..., Any]) -> Callable[..., Any]:
    """`graph`, which changes torch's settings for a while; they are those of this moment whenever it is called."""
    settings = SavedState(generators=False)

    def run(*inputs: Any) -> Any:
        nesting = autocast_nesting()
        try:
            return graph(*inputs)
        except BaseException:
            settings.nesting = nesting
            insist(settings.restore)
            raise

    return run


@dataclass(frozen=True, slots=True)
class Undo:
    """How a run that fails is taken back: the `places` of the inputs that are written to, whether these are copied
    before, whether the graph draws random numbers, and whether versions show which inputs were written to.
    """

    places: tuple[int, ...]
    copies: bool
    draws: bool
    counted: bool


def undo_of(
    tape: list[Any], finished: Finished, inputs: list[Any], acts: bool, in_order: bool, resumed: bool
) -> Undo | None:
    """How a graph that draws random numbers or writes to inputs is taken back when it fails; None: not at all.

    `inputs` are the entry's, `acts` says that the entry has effects of its own.  A graph that runs `in_order`
    counts its writes as it goes; of others nothing is known but the copies.  Where nothing can be taken back the
    entry stays as it is; not so after a break inside a block (`resumed`): who would leave the block?
    """
    given = {id(finished.inputs[i]) for i in finished.mutated}
    places = [i for i, one in enumerate(inputs) if id(one) in given]
    if (
        resumed
        and (finished.effect_level == UNKNOWN or changes_history(tape))
        and in_handler(step.places for step in fails_late(tape, False))
    ):
        raise Interrupt("torch-operation", "that may fail inside a block, after what cannot be taken back,")
    if finished.effect_level == UNKNOWN or any(
        is_wrapper(type(inputs[i])) or _core.of_tensor(inputs[i], "layout") is not torch.strided for i in places
    ):
        return None
    late = fails_late(tape, in_order) if places else []
    copies = (
        finished.undoes
        or bool(late)
        and (
            acts
            or in_handler(step.places for step in late)
            or sum(_core.of_tensor(inputs[i], "untyped_storage").nbytes() for i in places) <= SMALL
        )
    )
    if places and not in_order and not copies:
        return None
    counted = in_order and not ((late or finished.undoes) and writes_uncounted(tape))
    return Undo(tuple(places), copies, finished.effect_level > 0, counted)


def undoing(undo: Undo) -> Lines:
    """Around an entry: all that its graph did is taken back when it fails."""
    return Lines(
        before=(
            f"stage_written = ({''.join(f'inputs[{i}], ' for i in undo.places)})",
            f"stage_before = stage_versions(stage_written), {'stage_copies(stage_written)' if undo.copies else None}, "
            f"{'stage_generators()' if undo.draws else None}",
            "stage_failed.waits, stage_failed.again = True, None",
        ),
        block="try:",
        after=(
            "except Exception:",
            "    stage_take_back(stage_written, *stage_before)",
            "    raise",
            "finally:",
            "    stage_failed.waits = False",
        ),
        names={
            "stage_copies": _core.memory_copies,
            "stage_failed": _failed,
            "stage_generators": states,
            "stage_take_back": functools.partial(_take_back, undo.counted),
            "stage_versions": _core.versions,
        },
    )


def _take_back(
    counted: bool, tensors: tuple[torch.Tensor, ...], versions: tuple[int, ...], kept: Any, generators: Any
) -> None:
    """The run of an entry failed: its inputs and generators are as they were before, where that can be done.  The
    compiler is blamed where the graph does not fail uncompiled.
    """
    again, _failed.again = _failed.again, None
    if not _taken_back(tensors, versions, kept, counted):
        return
    if generators is not None:
        put_back(*generators)
    _core.undone()
    if again is not None and (kept is not None or not tensors):
        with torch.no_grad() if tensors else contextlib.nullcontext():  # histories are not taken back
            _blame_the_compiler(again)
        _taken_back(tensors, versions, kept, False)


def _taken_back(tensors: tuple[torch.Tensor, ...], versions: tuple[int, ...], kept: Any, counted: bool) -> bool:
    """Return whether the inputs hold again what they held; `counted`: their versions show whether they were written
    to.
    """
    now = _core.versions(tensors)
    changed = [tensor for tensor, old, new in zip(tensors, versions, now) if not counted or old != new or old < 0]
    if not changed:
        return True
    # their history is another one by now
    if kept is None or any(
        _core.of_tensor(one, "requires_grad") and not _core.of_tensor(one, "is_leaf") for one in changed
    ):
        return False
    if not _core.put_back_memory(tensors, kept):  # however tensors lie in it
        return False
    known = [(tensor, version) for tensor, version in zip(tensors, versions) if version >= 0]
    unsafe_set_version_counter(tuple([tensor for tensor, _ in known]), tuple([version for _, version in known]))
    return True


def report_failure(info: Capture, error: BaseException) -> None:
    """A graph or rehearsal failed where eager does not: reported once per capture, an error with `config.strict`."""
    if info is None or is_a(error, AssumptionFailed):
        return
    place = f"{info.name} ({info.file}:{info.line})"
    if is_a(error, Left):
        text = (
            f"{place} could not be captured: capturing it raises, while eager does not: {error}. The "
            f"call ran eagerly, and so will others"
        )
    elif info.in_handler or in_handler(info.stacks):  # the program may have caught the same error
        return
    else:
        text = (
            f"the graph of {place} failed, while eager does not: {type(error).__name__}: {error}. "
            "The call ran eagerly, and so will others that fail"
        )
    info.failures += 1
    if config.strict:
        raise InternalError(f"framelift: {text}") from error
    if info.failures == 1:
        warnings.warn(f"framelift: {text}. This is a defect of framelift or of the backend.", stacklevel=2)


def _is_of_hooks(error: BaseException) -> bool:
    """Return whether hooks on saved tensors raised it, which a checkpoint's do to end a recomputation: they ran."""
    codes = [code_of(hook) for hook in top_saved_hooks(True) or ()]
    trace = error.__traceback__ if codes else None
    while trace is not None and trace.tb_frame.f_code not in codes:
        trace = trace.tb_next
    return trace is not None


_core.connect(failure_teller=report_failure, hook_judge=_is_of_hooks)
