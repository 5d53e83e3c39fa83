"""Recurrent networks: packed sequences as ordinary operations, layers with dropout between them one by one.

Packing reads how long each sequence is.  Where that is known (known_values.py), rows are moved by an index that is
a constant of the graph, and a network over a packed sequence is the operations of its cells, as torch's own
kernels for the CPU go about it.  Torch's decompositions, which backends use, forget the dropout between layers; so
a network with one is recorded layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from ... import config
from ...graph.fx.node_functions import trained_lstm
from ...graph.fx.targets import target_of
from ...torch_ports.autograd import is_grad_enabled
from ...torch_ports.tensors import VariableFunctions
from ...vocabulary.reasons import Interrupt
from .ranks import rule

if TYPE_CHECKING:
    from ..session import Recorder

_MOST_ROWS = 1 << 14
#: so many steps of a network may be written out, by a compiler and here
_MOST_COMPILED, _MOST_STEPS = 16, 128
_OWNER = VariableFunctions


def _record(recorder: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    return recorder.record(target_of(func), args, kwargs)


def _known(recorder: Recorder, tensor: Any) -> list[int] | None:
    """The integers of a tensor of one dimension, where they are known."""
    known = recorder.known(tensor, outside=True) if recorder.is_stand_in(tensor) else None
    return None if known is None or known.ndim != 1 or known.dtype.is_floating_point else known.tolist()


def _constant(recorder: Recorder, numbers: list[int], device: Any = None) -> Any:
    return _record(recorder, torch.tensor, numbers, dtype=torch.int64, device=device or torch.device("cpu"))


def _is_static(size: Iterable[Any]) -> bool:
    return all(type(length) is int for length in size)


def _rows(recorder: Recorder, tensor: Any, index: list[int]) -> Any:
    return _record(
        recorder, torch.index_select, tensor, 0, _constant(recorder, index, recorder.value_of(tensor).facts.device)
    )


# ---- packing ---------------------------------------------------------------------------------------------------------


@rule(_OWNER._pack_padded_sequence)
def _pack(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def bound(input: Any, lengths: Any, batch_first: Any) -> tuple[Any, Any, bool]:
        return input, lengths, batch_first

    tensor, lengths, batch_first = bound(*args, **kwargs)
    size, known = recorder.value_of(tensor).facts.size, _known(recorder, lengths)
    if known is None or not _is_static(size):
        if not _is_static(size):
            raise Interrupt("symbolic-number", "a packed sequence")
        return recorder.record(target_of(_OWNER._pack_padded_sequence), args, kwargs)
    batch, steps = (size[0], size[1]) if batch_first else (size[1], size[0])
    if (
        len(known) != batch
        or not known
        or known != sorted(known, reverse=True)
        or not 0 < known[-1] <= known[0] <= steps
        or sum(known) > _MOST_ROWS
    ):
        raise Interrupt("torch-operation", "pack_padded_sequence of unusual lengths, or of thousands of rows,")
    alive = [sum(length > step for length in known) for step in range(known[0])]
    stride, along = (steps, 1) if batch_first else (1, batch)
    flat = _record(recorder, torch.Tensor.reshape, tensor, (batch * steps, *size[2:]))
    packed = _rows(
        recorder, flat, [b * stride + step * along for step, count in enumerate(alive) for b in range(count)]
    )
    return packed, _constant(recorder, alive)


@rule(_OWNER._pad_packed_sequence)
def _pad(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def bound(data: Any, batch_sizes: Any, batch_first: Any, padding_value: Any, total_length: Any) -> tuple[Any, ...]:
        return data, batch_sizes, batch_first, padding_value, total_length

    data, batch_sizes, batch_first, value, total = bound(*args, **kwargs)
    size, alive = recorder.value_of(data).facts.size, _known(recorder, batch_sizes)
    if alive is None:
        raise Interrupt("tensor-item", "pad_packed_sequence")
    if not _is_static(size):
        raise Interrupt("symbolic-number", "a packed sequence")
    steps = total if total > 0 else len(alive)
    if (
        type(steps) is not int
        or steps < len(alive)
        or not alive
        or sum(alive) != size[0]
        or steps * alive[0] > _MOST_ROWS
    ):
        raise Interrupt("torch-operation", "pad_packed_sequence of unusual batch sizes, or of thousands of rows,")
    index, start = [], 0
    for count in [*alive, *[0] * (steps - len(alive))]:
        index += [start + b if b < count else size[0] for b in range(alive[0])]
        start += count
    padding = _record(recorder, torch.Tensor.new_full, data, (1, *size[1:]), value)
    padded = _record(
        recorder,
        torch.Tensor.reshape,
        _rows(recorder, _record(recorder, torch.cat, [data, padding]), index),
        (steps, alive[0], *size[1:]),
    )
    if batch_first:
        padded = _record(recorder, torch.Tensor.transpose, padded, 0, 1)
    return padded, _constant(recorder, [sum(count > b for count in alive) for b in range(alive[0])])


# ---- cells: (the layer's input times its weights, hidden state, the hidden state's weights) -> hidden state
# ----------------------------------


def _lstm_cell(
    recorder: Recorder, row: Any, hidden: tuple[Any, ...], params: list[Any], biased: bool
) -> tuple[Any, ...]:
    h, c = hidden
    gates = _record(recorder, torch.add, _times(recorder, h, params, 1, biased), row)
    enter, forget, new, leave = _record(recorder, torch.chunk, gates, 4, 1)
    enter, forget, leave = (_record(recorder, torch.sigmoid, gate) for gate in (enter, forget, leave))
    new = _record(recorder, torch.mul, enter, _record(recorder, torch.tanh, new))
    c = _record(recorder, torch.add, _record(recorder, torch.mul, forget, c), new)
    h = _record(recorder, torch.mul, leave, _record(recorder, torch.tanh, c))
    if len(params) % 2:  # a projection
        h = _record(recorder, torch.matmul, h, _record(recorder, torch.Tensor.t, params[-1]))
    return h, c


def _gru_cell(
    recorder: Recorder, row: Any, hidden: tuple[Any, ...], params: list[Any], biased: bool
) -> tuple[Any, ...]:
    (h,) = hidden
    there = _record(recorder, torch.chunk, row, 3, 1)
    here = _record(recorder, torch.chunk, _times(recorder, h, params, 1, biased), 3, 1)
    reset, keep = (_record(recorder, torch.sigmoid, _record(recorder, torch.add, here[i], there[i])) for i in (0, 1))
    new = _record(
        recorder, torch.tanh, _record(recorder, torch.add, there[2], _record(recorder, torch.mul, here[2], reset))
    )
    kept = _record(recorder, torch.mul, _record(recorder, torch.sub, h, new), keep)
    return (_record(recorder, torch.add, kept, new),)


def _plain_cell(nonlinear: Any) -> Callable[..., tuple[Any, ...]]:
    def cell(recorder: Recorder, row: Any, hidden: tuple[Any, ...], params: list[Any], biased: bool) -> tuple[Any, ...]:
        return (
            _record(
                recorder, nonlinear, _record(recorder, torch.add, _times(recorder, hidden[0], params, 1, biased), row)
            ),
        )

    return cell


def _times(recorder: Recorder, tensor: Any, params: list[Any], which: int, biased: bool) -> Any:
    """Times the weights of the input (0) or of the hidden state (1)."""
    return _record(recorder, torch.nn.functional.linear, tensor, params[which], params[2 + which] if biased else None)


# ---- layers ----------------------------------------------------------------------------------------------------------


def _packed_layer(cell: Any, alive: list[int]) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
    """One layer, in one direction, over a packed sequence with so many sequences alive at each step."""

    def layer(
        recorder: Recorder, data: Any, first: tuple[Any, ...], params: list[Any], biased: bool, backwards: bool
    ) -> tuple[Any, tuple[Any, ...]]:
        def part(state: tuple[Any, ...], begin: int, end: int) -> tuple[Any, ...]:
            return tuple(_record(recorder, torch.narrow, one, 0, begin, end - begin) for one in state)

        def joined(states: list[tuple[Any, ...]]) -> tuple[Any, ...]:
            return tuple(_record(recorder, torch.cat, list(parts)) for parts in zip(*states))

        rows = list(_record(recorder, torch.split, _times(recorder, data, params, 0, biased), alive))
        steps = list(zip(rows, alive))[:: -1 if backwards else 1]
        count = steps[0][1]
        hidden, outputs, ended = part(first, 0, count), [], []
        for row, now in steps:
            if now < count:
                ended.append(part(hidden, now, count))
                hidden = part(hidden, 0, now)
            elif now > count:
                hidden = joined([hidden, part(first, count, now)])
            count, hidden = now, cell(recorder, row, hidden, params, biased)
            outputs.append(hidden[0])
        if ended:
            hidden = joined([hidden, *ended[::-1]])
        return _record(recorder, torch.cat, outputs[::-1] if backwards else outputs), hidden

    return layer


def _stack(
    recorder: Recorder,
    layer: Any,
    data: Any,
    hidden: list[tuple[Any, ...]],
    params: list[list[Any]],
    biased: bool,
    layers: int,
    dropout: float,
    directions: int,
) -> tuple[Any, ...]:
    """Layers on layers: the output, then each part of the hidden state of them all."""
    final = []
    for level in range(layers):
        outputs = []
        for way in range(directions):
            place = level * directions + way
            out, last = layer(recorder, data, hidden[place], params[place], biased, way == 1)
            outputs.append(out)
            final.append(last)
        data = outputs[0] if directions == 1 else _record(recorder, torch.cat, outputs, -1)
        if dropout and level < layers - 1:
            data = _record(recorder, torch.dropout, data, dropout, True)
    return (data, *(_record(recorder, torch.stack, list(parts)) for parts in zip(*final)))


def _whole_layers(
    recorder: Recorder,
    func: Any,
    data: Any,
    hidden: tuple[Any, ...],
    params: list[Any],
    biased: bool,
    layers: int,
    dropout: float,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """The same by one call for each layer, over a sequence that is not packed."""
    directions = 2 if bidirectional else 1
    each, final = len(params) // layers, []
    for level in range(layers):
        part = tuple(_record(recorder, torch.narrow, one, 0, level * directions, directions) for one in hidden)
        data, *last = _whole(
            recorder,
            func,
            data,
            list(part) if len(part) == 2 else part[0],
            params[level * each : (level + 1) * each],
            biased,
            1,
            0.0,
            True,
            bidirectional,
            batch_first,
        )
        final.append(last)
        if level < layers - 1:
            data = _record(recorder, torch.dropout, data, dropout, True)
    return (data, *(_record(recorder, torch.cat, list(parts)) for parts in zip(*final)))


def _network(func: Any, cell: Any, parts: int) -> Any:
    def packed(
        recorder: Recorder,
        data: Any,
        batch_sizes: Any,
        hx: Any,
        params: Any,
        has_biases: Any,
        num_layers: Any,
        dropout: Any,
        train: Any,
        bidirectional: Any,
    ) -> Any:
        alive = _known(recorder, batch_sizes)
        if alive is None:
            raise Interrupt("tensor-item", f"{func.__name__} of a packed sequence")
        _check_steps(recorder, func, len(alive))
        if len(alive) > _MOST_STEPS:
            raise Interrupt("torch-operation", f"{func.__name__} of a packed sequence of more than {_MOST_STEPS} steps")
        states = [list(_record(recorder, torch.unbind, one)) for one in (hx if parts == 2 else [hx])]
        directions = 2 if bidirectional else 1
        each = len(params) // (num_layers * directions)
        grouped = [list(params[i : i + each]) for i in range(0, len(params), each)]
        return _stack(
            recorder,
            _packed_layer(cell, alive),
            data,
            list(zip(*states)),
            grouped,
            has_biases,
            num_layers,
            dropout if train else 0.0,
            directions,
        )

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not kwargs and len(args) == 9:
            if recorder.is_stand_in(args[1]) and type(args[3]) in (list, tuple):
                return packed(recorder, *args)
            data, hx, params, biased, layers, dropout, train, bidirectional, batch_first = args
            size = recorder.value_of(data).facts.size
            # else one kernel
            if (
                func is not _OWNER.lstm
                or _wants_gradients(recorder, args)
                or recorder.value_of(data).facts.device.type != "cpu"
            ):
                _check_steps(recorder, func, size[1 if batch_first and len(size) == 3 else 0])
            if dropout and train and layers > 1:
                hidden = tuple(hx) if parts == 2 else (hx,)
                return _whole_layers(
                    recorder, func, data, hidden, list(params), biased, layers, dropout, bidirectional, batch_first
                )
            return _whole(recorder, func, *args)
        return recorder.record(target_of(func), args, kwargs)

    return handler


def _check_steps(recorder: Recorder, func: Any, steps: Any) -> None:
    if recorder.policy.unrolls and not config.allow_rnn and not (type(steps) is int and steps <= _MOST_COMPILED):
        raise Interrupt(
            "torch-operation", f"{func.__name__}, which the backend would write out step by step (config.allow_rnn),"
        )


def _wants_gradients(recorder: Recorder, args: tuple[Any, ...]) -> bool:
    return is_grad_enabled() and any(recorder.value_of(one).facts.requires_grad for one in (args[0], *args[2]))


def _whole(recorder: Recorder, func: Any, *args: Any) -> Any:
    """One node for a network."""
    if func is _OWNER.lstm and _wants_gradients(recorder, args) and not recorder.value_of(args[0]).facts.requires_grad:
        func = trained_lstm
    return _record(recorder, func, *args)


for _name, _cell, _parts in (
    ("lstm", _lstm_cell, 2),
    ("gru", _gru_cell, 1),
    ("rnn_tanh", _plain_cell(torch.tanh), 1),
    ("rnn_relu", _plain_cell(torch.relu), 1),
):
    rule(getattr(_OWNER, _name))(_network(getattr(_OWNER, _name), _cell, _parts))
