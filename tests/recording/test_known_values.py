"""Values of tensors that depend on nothing outside are known while capturing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift

from support import check


def test_values_of_what_factories_made() -> None:
    def f(x):
        rates = torch.linspace(0, 1, 5).tolist()
        mask = ~torch.ones(3, dtype=torch.bool)
        if mask.any():
            return x
        count = int(torch.arange(4).sum())
        return x * rates[2] + count + float(torch.tensor([1.5, 2.5])[1])

    check(f, torch.rand(3))


def test_writes_are_followed() -> None:
    def f(x):
        made = torch.zeros(4)
        view = made[1:3]
        view += 2
        first = made.sum().item()
        made[0] = x[0]
        return x + first + made

    check(f, torch.rand(4))


def test_what_depends_on_the_outside_is_not_known() -> None:
    def f(x):
        made = torch.zeros(2)
        made[0] = x[0]
        return x + made.sum().item()

    check(f, torch.rand(2), graphs=None, breaks=None)

    def g(x):
        return x + torch.rand(1).item()

    check(g, torch.rand(2), graphs=None, breaks=None)


def test_shapes_that_follow_from_known_values() -> None:
    def f(x):
        index = torch.tensor([0, 1, 0, 1]).nonzero().squeeze(1)
        repeated = torch.arange(2).repeat_interleave(torch.tensor([1, 2]))
        return x[index], x[repeated], torch.equal(index, torch.tensor([1, 3]))

    check(f, torch.rand(4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_text_of_known_tensors(dtype) -> None:
    def f(x):
        return f"{torch.ones(2, dtype=dtype)} {torch.tensor(2.5):.2f}", x + 1

    check(f, torch.rand(2))


def test_small_whole_numbers_from_outside_are_guarded() -> None:
    def f(x, grid):
        h, w = grid.tolist()
        rows = torch.arange(h).repeat_interleave(grid[1])
        return x.view(h, w).sum(0), rows + 1

    def change(number, world) -> None:
        world.args[1].copy_(torch.tensor([3, 2] if number % 2 else [2, 3]))

    check(f, torch.rand(6), torch.tensor([2, 3]))
    check(
        f, torch.rand(6), torch.tensor([2, 3]), calls=5, mutate=change, graphs=1, captures=1
    )  # numbers that the graph computes
    check(f, torch.rand(6), torch.tensor([2, 3]), calls=5, mutate=change, graphs=2, captures=2, fullgraph=False)


def test_values_that_keep_changing_are_left_to_plain_python() -> None:
    def f(x, n):
        return x * n.item()

    def change(number, world) -> None:
        world.args[1].add_(1)

    check(f, torch.rand(6), torch.tensor(1), calls=12, mutate=change, graphs=None, breaks=None)
    assert framelift.stats()["captures"] < 8


@pytest.mark.parametrize(("program", "graphs"), [(lambda x, n: x[: n.item()] * 2, 2), (lambda x, n: x * n + int(n), 3)])
def test_numbers_that_change_are_symbolic_behind_the_break(program: Any, graphs: int) -> None:
    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    for n in (2, 3, 4, 5):
        torch.testing.assert_close(compiled(torch.ones(9), torch.tensor(n)), program(torch.ones(9), torch.tensor(n)))
    assert framelift.stats()["graphs"] == graphs


def test_an_input_written_before_its_value_is_taken_is_not_known() -> None:
    def f(x, n, alias):
        alias.add_(1)
        return x * n.item()

    n = torch.tensor([1])
    check(f, torch.rand(6), n, n.view(1), graphs=None, breaks=None, calls=3)


def test_floating_point_inputs_and_large_ones_are_not_known() -> None:
    def f(x):
        return x * x.sum().item()

    check(f, torch.rand(3), graphs=None, breaks=1)
    check(f, torch.arange(1000), graphs=None, breaks=1)


def test_a_check_that_only_raises_needs_no_guard_on_values() -> None:
    def f(x):
        if (x < 0).any():
            raise ValueError
        return x + 1

    def change(number, world) -> None:
        world.args[0].add_(1)

    check(f, torch.tensor([1, 2]), calls=4, mutate=change, captures=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_known_numbers_where_sizes_are_wanted(backend) -> None:
    def f(x, n, mask):
        return (
            x.view(n + 4, -1),
            x[mask],
            x[torch.tensor([True, False, True, False, False])],
            torch.tensor([n, n + 1], dtype=torch.int32, device="cpu"),
        )

    check(
        f,
        torch.rand(5, requires_grad=True),
        torch.tensor(1),
        torch.tensor([True, False, True, True, False]),
        backend=backend,
    )


def test_what_only_the_shape_of_a_tensor_is_needed_for() -> None:
    """The mask is known though the tensor it is expanded to is not."""
    weights = torch.rand(8, 3)

    def f(ids: torch.Tensor) -> tuple[torch.Tensor, int]:
        embedded = weights[ids] * 2
        mask = (ids == 3).unsqueeze(-1).expand_as(embedded)
        everything = torch.ones_like(embedded, dtype=torch.bool)
        return embedded[mask], embedded[mask].numel() + int(everything.sum())

    check(f, torch.tensor([1, 3, 3, 0]))


def test_what_a_mask_of_attention_holds_is_guarded() -> None:
    layer = torch.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    net = torch.nn.TransformerDecoder(layer, 1)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(4)
    x, memory = torch.rand(2, 4, 8), torch.rand(2, 3, 8)
    framelift.reset()
    compiled = framelift.compile(net, backend="eager", fullgraph=True)
    for mask in (causal, causal.clone(), torch.zeros(4, 4), None, causal):
        torch.testing.assert_close(compiled(x, memory, tgt_mask=mask), net(x, memory, tgt_mask=mask))
    assert framelift.stats()["captures"] == 3


@pytest.mark.parametrize(
    "index",
    [lambda m, x: x[m], lambda m, x: x[..., m], lambda m, x: x[0, m], lambda m, x: x[None, m], lambda m, x: x[:, :, m]],
)
@pytest.mark.parametrize("shape", [(2, 2, 2), (2, 3, 2), (3, 2, 2), (2, 2, 3)])
def test_a_known_mask_must_fit_what_it_indexes(index: Any, shape: tuple[int, ...]) -> None:
    def f(x, box):
        return index(x.sum(1) > 0, box)

    ones, box = torch.ones(2, 3, dtype=torch.int64), torch.rand(shape)
    try:
        want = f(ones, box)
    except IndexError as error:
        captured = framelift.compile(f, backend="eager")
        for _ in range(2):
            with pytest.raises(IndexError) as raised:
                captured(ones, box)
            assert str(raised.value) == str(error)
    else:
        assert torch.equal(framelift.compile(f, backend="eager")(ones, box), want)


def test_values_taken_where_sizes_are_symbolic() -> None:
    """Values of few whole numbers are guarded with their shape, so the sizes they were taken with are fixed.

    Other sizes are captured whole again.
    """

    def f(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        merged = torch.tensor([2]).expand(len(grid))
        total = 0
        for (height, width), by in zip(grid.tolist(), merged.tolist()):
            total += height * width * by
        return x * total + x.shape[0]

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for rows in (2, 3, 4, 5):
        for factor in (1, 2):
            given = torch.rand(rows * 4), torch.arange(1, rows * 2 + 1).reshape(rows, 2) * factor
            torch.testing.assert_close(compiled(*given), f(*given))


def test_values_that_follow_from_a_size() -> None:
    """Captured whole where that is asked for, one capture per size; otherwise a break keeps the rest for all sizes."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * sum(torch.arange(x.shape[0]).tolist())

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for size in (2, 3, 4):
        torch.testing.assert_close(compiled(torch.ones(size)), f(torch.ones(size)))
    broken = framelift.compile(f, backend="eager")
    for size in range(2, 20):
        torch.testing.assert_close(broken(torch.ones(size)), f(torch.ones(size)))


def test_text_of_known_values_follows_the_print_options() -> None:
    def f(x):
        return x + 1, str(torch.tensor([1.23456])), f"{torch.arange(3.0)}"

    def other(i: int, _) -> None:
        torch.set_printoptions(precision=2 if i == 1 else 4)

    try:
        check(f, torch.ones(2), mutate=other, calls=3, captures=2, graphs=2)
    finally:
        torch.set_printoptions(profile="default")


_SPLITS = {
    "function": lambda x, by: torch.tensor_split(x, by),
    "named": lambda x, by: torch.tensor_split(x.reshape(2, 3), tensor_indices_or_sections=by, dim=-1),
    "by a constant": lambda x, by: x.tensor_split(torch.tensor([1, 4])) + x.tensor_split(by.numel() + 1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", _SPLITS)
def test_a_split_by_a_tensor(name: str, backend: str) -> None:
    function = framelift.compile(_SPLITS[name], backend=backend, fullgraph=True)
    for places in ([2, 4], [5, 3], [-1, 2], 2, [1, 2, 3], []):
        x, by = torch.arange(6.0), torch.tensor(places, dtype=torch.int64)
        torch.testing.assert_close(function(x, by), _SPLITS[name](x, by))
    with pytest.raises((RuntimeError, TypeError)) as wanted:
        torch.arange(6.0).tensor_split(torch.tensor([1.5]))
    with pytest.raises(type(wanted.value)) as got:
        framelift.compile(_SPLITS["function"], backend=backend)(torch.arange(6.0), torch.tensor([1.5]))
    assert str(got.value) == str(wanted.value)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_arguments_that_are_no_names_in_the_code_of_a_graph(backend: str) -> None:
    named: dict[str, Any] = {"from": 3, "to": 4}
    breaks = int(backend != "eager")
    check(lambda x: (x * 2).random_(**named), torch.rand(2), backend=backend, breaks=breaks)
    check(lambda x: (x * 2).random_(3, 4) + x, torch.rand(2), backend=backend, graphs=None, breaks=breaks)
    check(lambda x: x.clone().random_(1), torch.rand(2), backend=backend)
    check(lambda x: x.clone().uniform_(**named) > 2, torch.rand(2), backend=backend)


def test_an_index_of_one_number_is_the_number_where_it_is_known() -> None:
    def known(d):
        n, mask = torch.tensor(2), torch.arange(4) > 1
        return d[n], d[n, mask], d[:, n], d[mask][n - 1], d[n, 1:]

    check(known, torch.rand(4, 4))
    check(lambda d, n: (d[n] * 2, d[n, n], d[..., n]), torch.rand(4, 4), torch.tensor(-1))


def test_an_index_of_one_number_that_is_not_known_is_a_break() -> None:
    check(lambda d: d[d[0].argmax()] + 1, torch.rand(4, 4), breaks=1, graphs=None)
    assert "a tensor's value was taken into Python by getitem" in framelift.stats()["breaks"]


def test_what_is_decided_by_a_count_is_guarded_not_the_count() -> None:
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.tensor(0))

        def forward(self, x):
            if bool(self.count == 0):
                x = x * 2
            if self.count > 0:
                x = x + 1
            if (1 + self.count) % 4 == 0:
                x = x - 5
            self.count += 1
            return x

    check(Counting(), torch.rand(3), calls=12, mutate=lambda i, world: None, captures=3, graphs=3)


class Tableau(torch.nn.Module):
    """Constants of a solver: fractions that decide, and that an object holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("alpha", torch.tensor([0.25, 0.5, 1.0]))
        self.rows = (torch.tensor([0.25, 0.0]), torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]))
        self.state = [torch.tensor(0.5, dtype=torch.float64, requires_grad=True), torch.tensor([[1.0, 0.0]])]

    def forward(self, x, t):
        for alpha, row in zip(self.alpha, self.rows):
            x = x * t if alpha == 1.0 else x + alpha * row.sum()
        if torch.isfinite(self.state[0]) and (self.rows[1][:-1] == self.rows[-1][..., 1:]).all():
            x = x + 1
        return x * 2 if self.state[1][0, 1] < self.state[0] else x


def test_what_is_true_of_fractions_that_an_object_holds_is_guarded() -> None:
    module = Tableau()
    check(module, torch.rand(3), torch.tensor(0.3))
    limit = torch.tensor(0.5)
    check(lambda x: x * 2 if limit > 0 else x * 3, torch.rand(3))

    def change(i, world):
        world.fn.state[0].data.fill_(i % 3 - 1.0)

    # both truths: a capture, then the break that each value may pass
    check(module, torch.rand(3), torch.tensor(0.3), calls=9, mutate=change, captures=None, graphs=None, breaks=None)
    assert 1 <= framelift.stats()["graphs"] <= 5


def test_what_is_true_of_fractions_that_are_arguments_is_not_guarded() -> None:
    check(lambda x, t: x * 2 if t > 0 else x * 3, torch.rand(3), torch.tensor(0.3), graphs=2, breaks=1, captures=None)


def test_results_on_the_way_to_what_was_decided_are_not_known_by_it() -> None:
    def f(n, x):
        more = n + 1
        if more > 3:
            x = x * 2
        return x + more.item(), n.item() - 1

    def change(i, world):
        world.args[0].fill_(i % 7)

    check(f, torch.tensor(0), torch.rand(3), calls=16, mutate=change, captures=None, graphs=None, breaks=None)

    def both(n, x):
        first = n.max() > 2
        return x * 2 if first else x, (n + 1).tolist() if n.sum() > 5 else []

    def rows(i, world):
        world.args[0] = torch.tensor([i % 3, i % 5])

    check(both, torch.tensor([0, 0]), torch.rand(3), calls=14, mutate=rows, captures=None, graphs=None, breaks=None)


def test_a_calculation_that_fails_with_other_values_is_another_capture() -> None:
    def change(i, world):
        world.args[0] = torch.tensor([2, 0, 1][i % 3])

    def f(n, x):
        try:
            return x * 2 if (6 // n) > 4 else x
        except RuntimeError:
            return x - 1

    check(f, torch.tensor(2), torch.rand(3), calls=7, mutate=change, captures=None, graphs=None, breaks=None)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: x * 2 if 5 - n > 0 else x * 3,
        lambda x, n: x * 2 if 2**n > 8 else x * 3,
        lambda x, n: x * 2 if 7 // n > 1 else x * 3,
        lambda x, n: x * 2 if 3 < n else x * 3,
        lambda x, n: x * 2 if 10 % n == 1 else x * 3,
        lambda x, n: x * 2 if n.reshape(1, 1)[0, 0] > 3 else x * 3,
        lambda x, n: x * 2 if (n.reshape(1, 1)[..., :1] > 3).all() else x * 3,
    ],
)
def test_what_a_number_in_a_tensor_decides_from_the_right(program: Any) -> None:
    """The guard computes with the operands in the order they were written in."""
    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    for value in (1, 3, 4, 6, 2, 9, 3, 5):
        given = torch.ones(1), torch.tensor(value)
        assert torch.equal(compiled(*given), program(*given))
    assert framelift.stats()["captures"] == 2


_FACTORIES = {
    "arange": lambda n: torch.arange(n),
    "arange, by name": lambda n: torch.arange(end=n),
    "arange, all by name": lambda n: torch.arange(start=0, end=n, step=n - 1),
    "arange, from": lambda n: torch.arange(n, 7),
    "arange, both": lambda n: torch.arange(n, n * 3, n),
    "linspace": lambda n: torch.linspace(0, 1, steps=n),
    "linspace, all by name": lambda n: torch.linspace(start=0.0, end=1.0, steps=n),
    "zeros": lambda n: torch.zeros(n),
    "zeros, by name": lambda n: torch.zeros(size=(n, 2)),
    "ones": lambda n: torch.ones((2, n)),
    "full": lambda n: torch.full((n,), 2),
    "full, with it": lambda n: torch.full((2,), n),
    "full, by name": lambda n: torch.full(size=(2,), fill_value=n),
    "eye": lambda n: torch.eye(n),
    "eye, by name": lambda n: torch.eye(n=n, m=2),
    "tensor": lambda n: torch.tensor([n, 1]),
    "as_tensor": lambda n: torch.as_tensor([n]),
    "empty": lambda n: torch.empty(n, 0).shape,  # elements would be anything, also NaN
    "tril_indices": lambda n: torch.tril_indices(n, n),
    "logspace": lambda n: torch.logspace(0, 1, n),
    "hann_window": lambda n: torch.hann_window(n),
    "one_hot": lambda n: torch.nn.functional.one_hot(torch.tensor([0, 1]), num_classes=n),
    "repeat": lambda n: torch.ones(2).repeat(n),
    "expand": lambda n: torch.ones(1).expand(n),
    "view": lambda n: torch.ones(6).view(n, -1),
    "narrow, by name": lambda n: torch.ones(6).narrow(dim=0, start=n, length=2),
    "select": lambda n: torch.arange(6).select(0, n),
    "roll": lambda n: torch.arange(6).roll(n),
    "topk": lambda n: torch.arange(6).topk(n).values,
    "topk, by name": lambda n: torch.topk(input=torch.arange(6), k=n).values,
    "split": lambda n: torch.arange(6).split(n),
    "chunk": lambda n: torch.chunk(torch.arange(6), chunks=n),
    "range": lambda n: list(range(n)),
    "index": lambda n: [4, 5, 6, 7][n],
    "slice": lambda n: torch.arange(6)[:n],
}


@pytest.mark.parametrize("name", _FACTORIES)
@pytest.mark.parametrize("inside", [True, False])
def test_a_tensor_in_the_place_of_a_number(name, inside) -> None:
    def program(x, given):
        number = torch.tensor(3) if inside else given
        return x + 1, _FACTORIES[name](number)

    check(program, torch.ones(2), torch.tensor(3), graphs=None, breaks=0 if inside else None, fullgraph=False)


def test_constants_where_values_are_numbers_of_the_graph() -> None:
    """What depends on no input is as constant as the program's own numbers, also where there is to be one graph."""

    def program(x, counts):
        first, *others = torch.tensor([2, 3]).tolist()
        n = counts.sum().item()
        return x.reshape(first, -1) if torch.tensor(4).item() // first == 2 else x, torch.ones(n) * len(others)

    check(program, torch.ones(6), torch.tensor([1, 2]), fullgraph=True)


def test_values_are_guarded_where_the_graph_cannot_compute_them() -> None:
    """Sizes by a mask are the graph's to compute, those that choose a way are guarded: one graph for both."""
    graphs: list[Any] = []

    def backend(module, example_inputs):
        graphs.append(module)
        return module.forward

    def program(x, mask, lengths):
        parts = [part.relu() if len(part) > 2 else part + 1 for part in x.split(lengths.tolist())]
        kept = x[mask]
        return torch.cat(parts), kept * 2, len(kept)

    compiled = framelift.compile(program, backend=backend, fullgraph=True)
    x = torch.arange(6.0) - 3
    for lengths in ([2, 4], [3, 3], [2, 4]):
        for threshold in (-9, 0, 9):
            given = x, x > threshold, torch.tensor(lengths)
            for made, plain in zip(compiled(*given), program(*given)):
                assert torch.equal(made, plain) if isinstance(plain, torch.Tensor) else made == plain
    assert len(graphs) <= 2


def test_values_behind_a_break_that_come_again_are_known_again() -> None:
    """A break is rehearsed more than once; that counts as one value of an input."""

    def program(x, counts):
        total = x * 1
        for n in counts.tolist():
            total = total + torch.ones(3).repeat(n).sum()
        framelift.graph_break()
        for n in counts.tolist():
            total = total * n
        framelift.graph_break()
        return total + counts.tolist()[0]

    check(program, torch.ones(3), torch.tensor([1, 2]), graphs=3, breaks=2)


def test_results_that_values_decide_lie_as_in_plain_python() -> None:
    def f(x):
        places, rows = torch.argwhere(x), torch.nonzero(x, as_tuple=True)
        rows[0].add_(1)
        return places.stride(), torch.nonzero(x * 0).stride(), places, rows

    check(f, torch.tensor([[1, 0, 2], [0, 1, 1]]))


@pytest.mark.parametrize("split", [torch.tensor_split, torch.Tensor.tensor_split])
def test_views_that_values_decide_are_views_of_the_input(split: Any) -> None:
    def f(x, at):
        parts = split(x, at)
        parts[1].add_(5)
        return parts

    x, y, at = torch.arange(5), torch.arange(5), torch.tensor([1, 3])
    wanted, made = f(x, at), framelift.compile(f, backend="eager")(y, at)
    assert all(map(torch.equal, wanted, made)) and torch.equal(x, y)
    assert [part._base is y for part in made] == [True, True, True]


def test_a_symbolic_argument_of_what_is_tried_on_zeros() -> None:
    def f(x, k, values, places):
        try:
            return torch.kthvalue(x, k, out=(values, places))
        except RuntimeError as error:
            return type(error), str(error)

    captured = framelift.compile(f, backend="eager")
    for k in (2, 3, 5):
        wanted, made = [
            (program(x, k, x, torch.tensor(0)), program(x, k, torch.tensor(0.0), torch.tensor(0)))
            for program in (f, captured)
            for x in [torch.arange(10.0)]
        ]
        assert wanted == made


@pytest.mark.parametrize("first", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("second", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_a_tensor_as_alpha_is_multiplied_as_kernels_do(first: torch.dtype, second: torch.dtype) -> None:
    def f(x, y, alpha):
        made = []
        for operation in (torch.add, torch.sub, torch.Tensor.add_):
            try:
                made.append(operation(x.clone(), y, alpha=alpha))
            except RuntimeError as error:
                made.append(type(error))
        return made

    torch.manual_seed(0)
    x, y = (torch.randn(64) * 9).to(first), (torch.randn(64) * 9).to(second)
    for alpha in (torch.tensor(0.013), torch.tensor(3)):
        for wanted, made in zip(f(x, y, alpha), framelift.compile(f, backend="eager")(x, y, alpha)):
            if isinstance(wanted, torch.Tensor):
                assert wanted.dtype is made.dtype
                torch.testing.assert_close(
                    made, wanted, rtol=1e-6 if made.dtype is not torch.bfloat16 else 1e-2, atol=1e-6
                )
            else:
                assert wanted is made
