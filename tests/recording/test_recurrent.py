"""Recurrent networks: one node each; packed sequences and dropout between layers are graph breaks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

import framelift
from support import check

LENGTHS = ([4, 1, 3], [2, 2, 4])


def outcome(run: Any, net: nn.Module, x: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
    """Results, gradients and the state of the generator."""
    torch.manual_seed(3)
    x = x.clone().requires_grad_()
    out, last = run(x, *rest)
    states = last if isinstance(last, tuple) else (last,)
    wanted = torch.autograd.grad(out.sum() + sum(s.square().sum() for s in states), [x, *net.parameters()])
    return out, states, wanted, torch.get_rng_state()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_break_the_graph(kind: Any) -> None:
    net = kind(3, 4, num_layers=2, bidirectional=True)

    def f(x: torch.Tensor, lengths: torch.Tensor) -> tuple[Any, Any]:
        packed = rnn.pack_padded_sequence(x + 1, lengths, enforce_sorted=False)
        out, last = net(packed)
        padded, found = rnn.pad_packed_sequence(out, padding_value=-1.0, total_length=5)
        return padded * found.sum(), last

    framelift.reset()
    compiled = framelift.compile(f, backend="eager")
    for lengths in (*LENGTHS, LENGTHS[0]):
        x, by = torch.rand(5, 3, 3), torch.tensor(lengths)
        torch.testing.assert_close(outcome(compiled, net, x, by), outcome(f, net, x, by))
    stats = framelift.stats()
    assert stats["breaks"] and all("a packed sequence, whose lengths are values," in text for text in stats["breaks"])
    assert stats["graphs"] > 1


def test_packed_sequences_as_arguments_and_results() -> None:
    net = nn.GRU(3, 4)
    check(
        lambda packed: net(packed)[0], rnn.pack_sequence([torch.rand(4, 3), torch.rand(2, 3)]), graphs=None, breaks=None
    )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_dropout_between_layers_breaks_the_graph(kind: Any, backend: str) -> None:
    """Torch's decompositions forget it."""
    net = kind(3, 4, num_layers=2, dropout=0.5, bidirectional=True)
    x = torch.rand(2, 2, 3)
    framelift.reset()
    compiled = framelift.compile(net, backend=backend)
    torch.testing.assert_close(outcome(compiled, net, x), outcome(net, net, x))
    assert any("dropout between its layers" in text for text in framelift.stats()["breaks"])
    net.eval()
    torch.testing.assert_close(
        outcome(framelift.compile(net, backend=backend, fullgraph=True), net, x), outcome(net, net, x)
    )


def test_weights_want_gradients_and_the_input_none() -> None:
    net, x = nn.LSTM(3, 4), torch.rand(2, 2, 3)
    framelift.reset()
    compiled = framelift.compile(lambda x: torch.dropout(net(x)[0], 0.5, True), backend="aot_eager", fullgraph=True)
    torch.manual_seed(1)
    got = torch.autograd.grad(compiled(x).sum(), list(net.parameters()))
    torch.manual_seed(1)
    torch.testing.assert_close(
        got, torch.autograd.grad(torch.dropout(net(x)[0], 0.5, True).sum(), list(net.parameters()))
    )


def test_compilers_do_not_get_to_write_out_long_networks() -> None:
    net, x = nn.GRU(3, 4), torch.rand(60, 2, 3)
    for backend, whole in (("aot_eager", False), ("eager", True)):
        framelift.reset()
        torch.testing.assert_close(framelift.compile(lambda x: net(x)[0] + 1, backend=backend)(x), net(x)[0] + 1)
        assert any("step by step" in reason for reason in framelift.stats()["breaks"]) is not whole
    with torch.no_grad():  # the network is one kernel of the compiler's
        framelift.reset()
        lstm = nn.LSTM(3, 4)
        torch.testing.assert_close(framelift.compile(lstm, backend="aot_eager")(x)[0], lstm(x)[0])
        assert not framelift.stats()["breaks"]


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("projected", [0, 2])
def test_states_have_their_shape_where_a_compiler_writes_the_network_out(
    learns: bool, size: int, projected: int
) -> None:
    """Torch 2.11 and 2.12 give them one dimension more."""
    net = nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=projected)
    x = torch.rand(5, size, 3)
    with torch.set_grad_enabled(learns):
        compiled = framelift.compile(net, backend="aot_eager", fullgraph=True)
        for one in (x, x.clone().requires_grad_(learns)):
            want, got = net(one), compiled(one)
            torch.testing.assert_close(got, want)
