"""Exported programs: what they give, their signature, shapes, files and structure, compared with the program itself."""

from __future__ import annotations

import math
import io
import logging
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch.export import Dim, load, save, unflatten

import framelift
from framelift.export import export, export_graph, legacy


class Net(torch.nn.Module):
    """Parameters, both kinds of buffers, a tensor attribute, a module called twice, a region without grad."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.seq = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 3))
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("kept", torch.ones(3), persistent=False)
        self.shift = torch.full((3,), 0.5)

    def forward(self, x: torch.Tensor, *, more: dict[str, torch.Tensor]) -> dict[str, Any]:
        self.calls = self.calls + 1
        with torch.no_grad():
            side = self.seq(more["side"])
        return {"out": [self.seq(self.first(x)) + self.shift * self.kept, side], "calls": self.calls * 1}


def _call() -> tuple[Net, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(0)
    return Net(), (torch.randn(5, 4),), {"more": {"side": torch.randn(5, 3)}}


def _same(a: Any, b: Any) -> bool:
    left, right = torch.utils._pytree.tree_flatten(a), torch.utils._pytree.tree_flatten(b)
    return left[1] == right[1] and all(
        torch.allclose(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(left[0], right[0])
    )


@pytest.mark.parametrize("strict", [True, False])
def test_program_gives_what_the_module_gives(strict: bool) -> None:
    net, args, kwargs = _call()
    program = export(net, args, kwargs, strict=strict)
    assert net.calls.item() == 0
    assert [spec.target for spec in program.graph_signature.input_specs if spec.target] == [
        "first.weight",
        "first.bias",
        "seq.1.weight",
        "seq.1.bias",
        "calls",
        "kept",
        "shift",
    ]
    got = program.module()(*args, **kwargs)
    net.calls.zero_()
    assert _same(got, net(*args, **kwargs))


@pytest.mark.parametrize("strict", [True, False])
def test_program_is_saved_and_unflattened(strict: bool) -> None:
    net, args, kwargs = _call()
    program = export(net, args, kwargs, strict=strict)
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    again = load(file)
    tree = unflatten(program)
    assert isinstance(tree.seq, torch.nn.Module)
    wanted = program.run_decompositions().module()(*args, **kwargs)["out"]
    assert _same(again.module()(*args, **kwargs)["out"], wanted) and _same(tree(*args, **kwargs)["out"], wanted)


def test_both_modes_make_the_same_program() -> None:
    net, args, kwargs = _call()
    strict, plain = (export(net, args, kwargs, strict=mode) for mode in (True, False))

    def rows(program: Any) -> list[Any]:
        return [(node.op, str(node.target)) for node in program.graph.nodes]

    assert rows(strict) == rows(plain)
    assert strict.graph_signature == plain.graph_signature
    assert [entry.fqn for entry in strict.module_call_graph] == [entry.fqn for entry in plain.module_call_graph]


def test_exported_parameters_train() -> None:
    net, args, kwargs = _call()
    module = export(net, args, kwargs, strict=True).module()
    module(*args, **kwargs)["out"][0].sum().backward()
    found = {name: p.grad.clone() for name, p in module.named_parameters()}
    net.zero_grad()
    net(*args, **kwargs)["out"][0].sum().backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad)


@pytest.mark.parametrize("strict", [True, False])
def test_dynamic_shapes(strict: bool) -> None:
    net, args, kwargs = _call()
    batch = Dim("batch", max=64)
    program = export(net, args, kwargs, dynamic_shapes={"x": {0: batch}, "more": {"side": {0: batch}}}, strict=strict)
    assert [str(bounds) for bounds in program.range_constraints.values()] == ["VR[0, 64]"]
    given = torch.randn(9, 4), {"side": torch.randn(9, 3)}
    assert _same(program.module()(given[0], more=given[1])["out"], net(given[0], more=given[1])["out"])


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cos() if x.shape[0] > 10 else x.sin()


@pytest.mark.parametrize("strict", [True, False])
def test_a_branch_on_a_dynamic_size_is_an_error_with_a_fix(strict: bool) -> None:
    x = torch.ones(4, 2)
    with pytest.raises(Exception, match=r"size\(\)\[0\] <= 10(?s:.*)batch = Dim\('batch', max=10\)"):
        export(Branching(), (x,), dynamic_shapes={"x": {0: Dim("batch")}}, strict=strict)
    program = export(Branching(), (x,), dynamic_shapes={"x": {0: Dim("batch", max=10)}}, strict=strict)
    assert _same(program.module()(torch.ones(7, 2)), torch.ones(7, 2).sin())


@pytest.mark.parametrize("hint", [Dim.AUTO, Dim.DYNAMIC])
def test_example_tensors_keep_no_marks(hint: Any) -> None:
    x = torch.ones(4, 2)
    export(torch.nn.ReLU(), (x,), dynamic_shapes=({0: hint},), strict=True)
    assert not x.__dict__
    with pytest.raises(Exception, match="4"):
        export(_Fixed(), (x,), dynamic_shapes=({0: Dim.DYNAMIC},), strict=True)
    assert not x.__dict__


class _Fixed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + len(range(int(x.shape[0])))


def test_static_and_automatic_dimensions() -> None:
    x = torch.ones(4, 2)
    program = export(_Fixed(), (x,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.STATIC},), strict=True)
    assert program.range_constraints == {} and program.module()(x)[0, 0] == 5


def test_what_cannot_be_captured_is_said() -> None:
    class Prints(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x

    with pytest.raises(framelift.exc.Unsupported, match="a branch depends on the values of a tensor"):
        export(Prints(), (torch.ones(2),), strict=True)


def test_graph_has_the_signature_of_the_function() -> None:
    def function(x: torch.Tensor, pair: dict[str, torch.Tensor], *rest: Any, scale: float = 1.0) -> Any:
        return [x.sin() * scale + pair["a"], {"same": pair["a"]}, rest[0]]

    args = (torch.randn(3), {"a": torch.randn(3)}, 7)
    graph, guards = export_graph(function)(*args, scale=2.0)
    assert _same(graph(*args, scale=2.0), function(*args, scale=2.0))
    wider = (torch.randn(8), {"a": torch.randn(8)}, 7)
    assert _same(graph(*wider, scale=2.0), function(*wider, scale=2.0))
    assert any("size()" in text for guard in guards for text in guard.code_list)


def test_graph_of_a_module_keeps_its_names() -> None:
    net, args, kwargs = _call()
    graph, _ = export_graph(net)(*args, **kwargs)
    assert {node.target for node in graph.graph.nodes if node.op == "get_attr"} == {
        "first.weight",
        "first.bias",
        "seq.1.weight",
        "seq.1.bias",
        "calls",
        "kept",
        "shift",
    }
    assert dict(graph.named_parameters())["seq.1.weight"] is net.seq[1].weight
    assert _same(graph(*args, **kwargs)["out"], net(*args, **kwargs)["out"])


def test_names_of_torch_dynamo_export() -> None:
    net, args, kwargs = _call()
    graph, _ = legacy(net)(*args, **kwargs)
    names = {"first_weight", "first_bias", "seq_1_weight", "seq_1_bias", "calls", "kept", "shift"}
    assert {node.target for node in graph.graph.nodes if node.op == "get_attr"} == {f"L__self___{one}" for one in names}
    assert dict(graph.named_parameters())["L__self___seq_1_weight"] is net.seq[1].weight
    assert {name for name, _ in (*graph.named_parameters(), *graph.named_buffers())} == {
        f"L__self___{one}" for one in names
    }
    assert _same(graph(*args, **kwargs)["out"], net(*args, **kwargs)["out"])


def test_aten_graph() -> None:
    graph, _ = export_graph(lambda x: x.sin() + 1, aten_graph=True)(torch.ones(3))
    assert [str(node.target) for node in graph.graph.nodes if node.op == "call_function"] == [
        "aten.sin.default",
        "aten.add.Tensor",
    ]
    assert _same(graph(torch.ones(5)), torch.ones(5).sin() + 1)


def test_program_knows_that_it_is_exported() -> None:
    class Asks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if torch.compiler.is_exporting() else x

    for strict in (True, False):
        assert export(Asks(), (torch.ones(1),), strict=strict).module()(torch.ones(1)).item() == 2
    assert not torch.compiler.is_exporting()
    assert framelift.compile(Asks(), backend="eager")(torch.ones(1)).item() == 1


def test_numbers_that_the_graph_computes() -> None:
    class Model(torch.nn.Module):
        def forward(self, n: torch.Tensor, x: torch.Tensor) -> Any:
            count = n.item()
            torch._check(count >= 1)
            torch._check(count <= 5)
            return torch.zeros(count) + 1, x.nonzero().shape[0] + x[x > 0].sum()

    program = export(Model(), (torch.tensor(3), torch.tensor([1, 0, 2])), strict=True)
    for n, x in ((4, [5, 0, 0]), (1, [1, 1, 1])):
        given = torch.tensor(n), torch.tensor(x)
        assert _same(program.module()(*given), Model()(*given))
    with pytest.raises(RuntimeError, match="u0 <= 5"):
        program.module()(torch.tensor(7), torch.tensor([1, 0, 2]))


def test_dynamic_int_argument() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x[:n] * n

    program = export(Model(), (torch.arange(8), 3), dynamic_shapes=(None, Dim.DYNAMIC), strict=True)
    assert program.module()(torch.arange(8), 5).tolist() == [0, 5, 10, 15, 20]


class Conditional(torch.nn.Module):
    """Both branches of a condition on a size; the inner one uses the size itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def small(y: torch.Tensor) -> torch.Tensor:
            return torch.cond(y.shape[0] > 2, lambda z: z + z.shape[0], lambda z: z - 1.0, (y,))

        return torch.cond(x.shape[0] > 4, lambda y: self.inside(y), small, (x,))


def test_condition_on_a_size_stays_in_the_graph() -> None:
    module = Conditional()
    program = export(module, (torch.ones(6, 2),), dynamic_shapes=({0: Dim("rows", min=2, max=64)},), strict=True)
    graph, _ = export_graph(module)(torch.ones(6, 2))
    for rows in (6, 3, 2):
        x = torch.randn(rows, 2)
        assert _same(graph(x), module(x)) and _same(program.module()(x), module(x))


def test_assertions_on_data_are_checked_by_the_graph() -> None:
    space: dict[str, Any] = {}  # pytest rewrites assert statements
    exec("def function(x):\n    assert x.sum() > 0, 'must be positive'\n    return x.cos()\n", space)
    graph, _ = export_graph(space["function"])(torch.ones(2))
    assert _same(graph(torch.ones(3)), torch.ones(3).cos())
    with pytest.raises(RuntimeError, match="must be positive"):
        graph(-torch.ones(3))


def test_results_declared_constant() -> None:
    @framelift.assume_constant_result
    def chosen(x: torch.Tensor) -> torch.Tensor:
        return x.nonzero()

    graph, _ = export_graph(lambda x: chosen(x * 2) + 1)(torch.tensor([0, 3]))
    assert graph(torch.tensor([5, 5])).tolist() == [[2]]


def test_values_declared_constant_decide_branches() -> None:
    @framelift.assume_constant_result
    def declared(y: torch.Tensor) -> torch.Tensor:
        return y

    class Chosen(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.y = torch.nn.Parameter(torch.tensor(0.3))

        def forward(self, x: torch.Tensor, mark: bool) -> torch.Tensor:
            return torch.cat([x, x]) if (declared(self.y) if mark else self.y) < 0.5 else x

    x = torch.ones(2, 3)
    graph, _ = export_graph(Chosen())(x, True)
    assert _same(graph(x, True), torch.cat([x, x]))
    with pytest.raises(framelift.exc.Unsupported, match="depends on the values"):
        export_graph(Chosen())(x, False)


def test_exported_module_is_exported_again() -> None:
    first = export(Branching(), (torch.ones(4, 2),), dynamic_shapes=({0: Dim("rows", max=10)},), strict=True)
    for strict in (True, False):
        again = export(first.module(), (torch.ones(4, 2),), dynamic_shapes=({0: Dim("rows", max=10)},), strict=strict)
        assert _same(again.module()(torch.ones(6, 2)), torch.ones(6, 2).sin())


def test_arguments_and_results_must_be_containers() -> None:
    class Odd:
        pass

    with pytest.raises(Exception, match="one of the inputs with type .*Odd"):
        export_graph(lambda x: torch.ones(1))(Odd())
    with pytest.raises(Exception, match="one of the outputs with type .*Odd"):
        export_graph(lambda x: Odd())(torch.ones(1))
    for argument in (Odd(), {1}, torch.nn.ReLU(), len):
        with pytest.raises(Exception, match="one of the inputs with type .* is not supported or pytree-flattenable"):
            export(torch.nn.Identity(), (argument,), strict=True)


def test_one_of_two_sizes_is_chosen_by_the_graph() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.new_ones(()) * torch.sym_ite(x.shape[0] == 5, x.shape[0], x.shape[1])

    program = export(Model(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("a"), 1: Dim("b")},), strict=True)
    assert program.module()(torch.ones(5, 7)).item() == 5 and program.module()(torch.ones(6, 7)).item() == 7


def test_a_module_with_two_names_is_called_by_each() -> None:
    norm = torch.nn.LayerNorm(4)
    net = torch.nn.Sequential(norm, torch.nn.ReLU(), norm, norm)
    tree = unflatten(export(net, (torch.randn(2, 4),), strict=True))
    assert all(hasattr(tree, name) for name in "0123") and getattr(tree, "0") is getattr(tree, "2") is getattr(
        tree, "3"
    )
    x = torch.randn(2, 4)
    torch.testing.assert_close(tree(x), net(x))


def test_operators_with_another_dtype() -> None:
    from torch._higher_order_ops.out_dtype import out_dtype

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return out_dtype(torch.ops.aten.mm.default, torch.int32, x, y) + 1

    given = torch.randint(-100, 100, (4, 4), dtype=torch.int8), torch.randint(-100, 100, (4, 4), dtype=torch.int8)
    got = export(Model(), given, strict=True).module()(*given)
    assert got.dtype is torch.int32 and torch.equal(got, given[0].int() @ given[1].int() + 1)


def test_an_operators_overload_is_first_met_in_captured_code() -> None:
    library = torch.library.Library("framelift_test_export", "FRAGMENT")
    library.define("pair(Tensor x, Tensor y) -> (Tensor, Tensor[])")
    library.impl("pair", lambda x, y: (y.clone(), [x.clone()]), "CompositeExplicitAutograd")

    def function(x: torch.Tensor) -> torch.Tensor:
        a, b = torch.ops.framelift_test_export.pair.default(x, x * 2)
        return a + b[0]

    assert framelift.compile(function, backend="eager", fullgraph=True)(torch.ones(1)).item() == 3


def test_a_module_of_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode(shape_env=ShapeEnv(tracked_fakes=[])):
        net, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    for strict in (True, False):
        assert [
            str(node.target) for node in export(net, (x,), strict=strict).graph.nodes if node.op == "call_function"
        ] == ["aten.linear.default"]


@pytest.mark.parametrize("strict", [True, False])
def test_signatures_of_modules_are_preserved(strict: bool) -> None:
    class Inner(torch.nn.Module):
        def forward(self, pair: dict[str, torch.Tensor]) -> list[torch.Tensor]:
            return [pair["a"] + pair["b"]]

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner({"a": x, "b": x * 2})[0]

    tree = unflatten(export(Outer(), (torch.ones(2),), strict=strict, preserve_module_call_signature=("inner",)))
    assert tree.inner({"a": torch.ones(2), "b": torch.ones(2)})[0].tolist() == [2.0, 2.0] and tree(
        torch.ones(2)
    ).tolist() == [3.0, 3.0]


def test_exports_and_captures_in_threads() -> None:
    def exported() -> list[int]:
        class Model(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.zeros(x.sum().item()) if x.dtype is torch.int64 else x

        return [len(export_graph(Model())(torch.tensor([n]))[0](torch.tensor([3]))) for n in (2, 4)]

    def captured() -> list[bool]:
        compiled = framelift.compile(lambda x: x * x.sum().item(), backend="eager")
        return [
            compiled(torch.ones(2)).sum().item() == 4
            and framelift.dry_run(lambda x: x.sum().item(), torch.ones(1)).breaks != ()
            for _ in range(4)
        ]

    with ThreadPoolExecutor(4) as pool:
        exports, captures = [pool.submit(exported) for _ in range(3)], [pool.submit(captured) for _ in range(3)]
        assert all(one.result() == [3, 3] for one in exports) and all(all(one.result()) for one in captures)
    assert not framelift.config.capture_scalar_outputs


def test_what_a_program_says_is_not_exported(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("framelift.test_export")

    class Talks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("size", x.shape)
            log.warning("size %s", x.shape)
            warnings.warn(f"{x.dtype}", stacklevel=1)
            return x + 1

    program = export(Talks(), (torch.ones(2),), strict=True)
    assert program.module()(torch.ones(2)).tolist() == [2.0, 2.0] and capsys.readouterr().out == ""
    assert not framelift.config.ignore_logging_functions


def test_exports_leave_the_options_as_they_are() -> None:
    with framelift.config.patch(automatic_dynamic_shapes=False, capture_scalar_outputs=True, recompile_limit=3):
        before = framelift.config.get_config_copy()
        for strict in (True, False):
            export(Branching(), (torch.ones(4, 2),), strict=strict)
            assert framelift.config.get_config_copy() == before
        with framelift.installed():
            export(Branching(), (torch.ones(4, 2),))
            assert framelift.config.get_config_copy() == before


def test_truth_values_of_sizes_are_like_any_other() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        large = x.shape[0] > 3
        return [
            x + 1 if large is True else x,
            x * (large + 2),
            x - large * 2,
            x + isinstance(large, bool),
            x + int(not large),
            x + [5, 6][large],
        ]

    def undecided(x: torch.Tensor) -> list[torch.Tensor]:
        large = x.shape[0] > 3
        return [
            x * (large + 2),
            x - large * 2,
            x + isinstance(large, bool),
            x + int(not large),
            x + [5, 6][large],
            x + (large and 3),
            x + {True: 1, False: 2}[large],
            x + (large == True),
            x + sum([large, large]),
            x + len(f"{large}{large!r}"),
        ]  # noqa: E712

    for one in (function, undecided):
        for rows in (3, 4):
            x = torch.randn(rows, 2)
            assert _same(export_graph(one)(x)[0](x), one(x))


def test_modules_of_fakes_are_exported() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).sin() if isinstance(self.layer.weight, torch.nn.Parameter) else x

    dynamic = ({0: Dim("rows")},)
    for strict in (True, False):
        with FakeTensorMode() as mode:
            net, x = Model(), torch.randn(3, 2)
            program = export(net, (x,), dynamic_shapes=dynamic, strict=strict)
            graphs = [
                export_graph(net, dynamic_shapes=dynamic, aten_graph=aten)(x).graph_module for aten in (False, True)
            ]
        real = Model()
        for graph in (graphs[0], program.module()):
            values = torch.nn.utils.stateless._reparametrize_module(
                graph, {f"layer.{name}": one for name, one in real.layer.named_parameters()}
            )
            with values:
                assert _same(graph(torch.ones(5, 2)), real(torch.ones(5, 2)))
        assert any("sin" in str(node.target) for node in graphs[1].graph.nodes)

    leaked = mode.from_tensor(torch.ones(2))
    with pytest.raises(framelift.exc.Unsupported, match="FakeTensor"):
        export_graph(lambda x: x + leaked)(torch.ones(2))


def test_a_float_of_the_data_made_a_size() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            rows = int(x.item())
            torch._check(rows >= 2)
            torch._check(rows <= 9)
            return torch.zeros(rows), torch.tensor([math.ceil(x.item())])

    program = export(Model(), (torch.tensor(3.7),), strict=True)
    for value in (3.7, 5.2, 2.0):
        assert _same(program.module()(torch.tensor(value)), Model()(torch.tensor(value)))


def test_what_has_no_form_in_a_graph_is_refused_in_words() -> None:
    with pytest.raises(framelift.exc.Unsupported):
        export_graph(lambda x: torch.zeros(int(x.item() * 2.5)))(torch.tensor(3.7))


def test_graph_of_a_call_with_a_dtype():
    x = torch.ones(3)
    graph, _ = export_graph(lambda x, dtype: x.to(dtype) + 1)(x, torch.float64)
    assert graph(x, torch.float64).dtype is torch.float64
    graph, _ = export_graph(lambda x, dtype: x.to(dtype) + 1, aten_graph=True)(x, torch.float64)
    assert graph(x, torch.float64).tolist() == [2.0] * 3


def test_graph_of_a_call_where_symbols_do_not_do():
    """Nobody asked for them: the sizes are constants."""
    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    graph, _ = export_graph(lambda x: torch.vmap(torch.sin)(x))(x)
    torch.testing.assert_close(graph(x), x.sin())


_GIVING_BACK = {
    "another dtype that it has": lambda x: x.to(torch.float32) * 2,
    "a device that it is on": lambda x: x.to("cpu").cpu() + 1,
    "float": lambda x: x.float(),
    "dropout in evaluation": lambda x: torch.nn.functional.dropout(x, 0.5, False).view(-1),
    "contiguous, written to": lambda x: x.contiguous().add_(1),
}


@pytest.mark.parametrize("name", _GIVING_BACK)
def test_an_operation_that_gives_back_its_argument_is_part_of_a_program(name: str) -> None:
    """A program is called with other tensors than its example; of those the operation may make something else."""

    class One(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return _GIVING_BACK[name](x)

    programs = [export(One(), (torch.ones(2, 3),), strict=strict) for strict in (True, False)]
    strict, traced = ([str(node.target) for node in program.graph.nodes] for program in programs)
    assert strict == traced
    module, (mine, plain) = programs[0].module(), (torch.rand(2, 3) for _ in range(2))
    plain.copy_(mine)
    got, wanted = module(mine), One()(plain)
    assert torch.equal(got, wanted) and torch.equal(mine, plain) and (got is mine) == (wanted is plain)


class LazyNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.LazyLinear(4), torch.nn.LazyBatchNorm1d()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.first(x)).relu()
        return result


def test_lazy_modules_get_their_parameters() -> None:
    net, x = LazyNet().eval(), torch.randn(2, 3)
    program = export(net, (x,), strict=True)
    assert type(net.first) is torch.nn.Linear and net.first.weight.shape == (4, 3)
    torch.testing.assert_close(program.module()(x), net(x))
    assert program.state_dict.keys() == net.state_dict().keys()


@pytest.mark.parametrize("strict", [True, False])
def test_a_dynamic_dimension_that_does_not_exist(strict: bool) -> None:
    class Plus(torch.nn.Module):
        def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> torch.Tensor:
            return x + more["y"]

    args = (torch.ones(3), {"y": torch.ones(3)})
    with pytest.raises(
        Exception, match=r"dynamic_shapes\['more'\]\['y'\] declares dimension 2 of a tensor of shape \(3,\)"
    ):
        export(Plus(), args, dynamic_shapes={"x": None, "more": {"y": {2: Dim("n")}}}, strict=strict)
    export(Plus(), args, dynamic_shapes={"x": {0: Dim("n")}, "more": {"y": {0: Dim("n")}}}, strict=strict)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("nothing", [None, {}, (), []])
def test_empty_dynamic_shapes_say_nothing(strict: bool, nothing: Any) -> None:
    program = export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=nothing, strict=strict)
    assert not program.range_constraints


def test_ranges_that_the_arguments_are_not_in() -> None:
    from torch._dynamo.exc import UserError
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    for strict, error in ((True, UserError), (False, ConstraintViolationError)):
        for dim in (Dim("rows", max=3), Dim("rows", min=5)):
            with pytest.raises(error, match="4 not in range"):
                export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=({0: dim},), strict=strict)


@pytest.mark.parametrize("strict", [True, False])
def test_keys_of_module_stacks(strict: bool) -> None:
    program = export(torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(2),), strict=strict)
    (node,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default)
    assert list(node.meta["nn_module_stack"]) == ["L__self__", "L__self__0"]
