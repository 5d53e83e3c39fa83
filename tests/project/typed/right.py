"""Calls that type checkers accept, with the types that they find."""

from typing import assert_type

import torch
from torch import Tensor

import framelift
from framelift.capture.module_wrapper import OptimizedModule
from framelift.capture.records.recompiles import Recompile
from framelift.report import Report


@framelift.compile
def plain(x: Tensor, n: int = 2) -> Tensor:
    return x * n


@framelift.compile(backend="eager", fullgraph=True, mode="default", dynamic=None, options={"epilogue_fusion": True})
def named(x: Tensor, n: int = 2) -> tuple[Tensor, int]:
    return x * n, n


class Net(torch.nn.Module):
    width: int = 3

    def forward(self, x: Tensor) -> Tensor:
        return x * self.width

    @framelift.compile(backend="eager")
    def step(self, x: Tensor) -> int:
        return x.shape[0]


@framelift.disable(reason="it talks to a server")
def kept_out(x: Tensor) -> str:
    return str(x)


@framelift.allow_in_graph
def one_node(x: Tensor) -> Tensor:
    return x.cumsum(0)


def fitted(net: Net) -> Net:
    net = framelift.compile(net, backend="eager")
    return net


def program(x: Tensor) -> None:
    assert_type(plain(x, n=3), Tensor)
    assert_type(named(x), tuple[Tensor, int])
    assert_type(plain.report(), Report)
    assert_type(named.recompiles(), list[Recompile])
    assert_type(plain.report().breaks[0].fix, str)
    net = Net()
    assert_type(net.step(x), int)
    assert_type(net.step.report(), Report)
    compiled = framelift.compile(net, dynamic=True)
    assert_type(compiled, OptimizedModule)
    assert_type(compiled.report(), Report)
    print(compiled(x), compiled.width, fitted(net).width)
    assert_type(framelift.compile(Net), type[Net])
    assert_type(kept_out(x), str)
    assert_type(one_node(x), Tensor)
    assert_type(framelift.dry_run(plain, x), Report)
    with framelift.config.patch(cache=False, repeated_layers="off"), framelift.set_stance("fail_on_recompile"):
        assert_type(framelift.config.recompile_limit, int)
    framelift.config.recompile_limit = 16
