"""Torch's generators of random numbers: who names one, or asks for seeds and states, breaks the graph."""

import pytest
import torch
from torch import nn

import framelift
from support import compiled


def _seeded():
    return torch.Generator().manual_seed(7)


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = _seeded()

    def forward(self, x):
        return x + torch.randn(x.shape, generator=self.generator)


def _given(x, g):
    y = x.clone().normal_(generator=g) + torch.empty(2, 3).uniform_(0, 2, generator=g)
    return y + torch.multinomial(x.softmax(-1), 3, generator=g).float() + torch.randperm(3, generator=g)


def _seeded_inside(x, g):
    g.manual_seed(5)
    return x + torch.randn(2, 3, generator=g)


def _made_inside(x, _):
    return x + torch.rand(2, 3, generator=torch.Generator("cpu").manual_seed(5)) + torch.rand(2, 3)


def _the_default_one(x, _):
    return x + torch.rand(2, 3, generator=torch.default_generator) + torch.rand(2, 3)


def _handed_back(x, g):
    return x + torch.rand(2, 3, generator=g) * (g.device.type == "cpu")


def _seed_between_numbers(x, _):
    y = torch.rand(2, 3)
    torch.manual_seed(3)
    return x + y + torch.rand(2, 3)


def _state_taken_and_set(x, _):
    state = torch.get_rng_state()
    y = torch.rand(2, 3)
    torch.set_rng_state(state)
    return x + y - torch.rand(2, 3)


def _state_of_a_generator(x, g):
    state = g.get_state()
    y = torch.rand(2, 3, generator=g)
    g.set_state(state)
    return x + y + state.sum() % 7


def _forks_in_one_another(x, _):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        with torch.random.fork_rng():
            torch.manual_seed(2)
            y = x + torch.rand(2, 3)
    return y + torch.rand(2, 3)


def _inside_a_body(x, g):
    return torch.utils.checkpoint.checkpoint(lambda y: y + torch.rand(2, 3, generator=g), x, use_reentrant=False)


PROGRAMS = (
    _given,
    _seeded_inside,
    _made_inside,
    _the_default_one,
    _handed_back,
    _seed_between_numbers,
    _state_taken_and_set,
    _state_of_a_generator,
    _forks_in_one_another,
    _inside_a_body,
)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS)
def test_numbers_and_states_are_those_of_eager_mode(fn, backend):
    x, mine, theirs = torch.arange(1.0, 7.0).reshape(2, 3), _seeded(), _seeded()
    fast = compiled(fn, backend=backend)
    torch.manual_seed(11)
    for _ in range(3):
        before = torch.get_rng_state()
        want = fn(x, theirs)
        after = torch.get_rng_state()
        torch.set_rng_state(before)
        assert torch.equal(fast(x, mine), want) and torch.equal(after, torch.get_rng_state())
        assert mine.get_state().tolist() == theirs.get_state().tolist()
    assert framelift.stats()["breaks"]


def test_of_a_module():
    plain, fast = Noise(), compiled(Noise())
    for _ in range(3):
        assert torch.equal(fast(torch.ones(2, 3)), plain(torch.ones(2, 3)))


def test_exception_inside_a_fork():
    def f(x):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return torch.rand(3)[x]

    fast = compiled(f)
    assert torch.equal(fast(torch.tensor([0, 2])), f(torch.tensor([0, 2])))
    before = torch.get_rng_state()
    with pytest.raises(IndexError):
        fast(torch.tensor([0, 9]))
    assert torch.equal(before, torch.get_rng_state())


def test_no_generator_is_the_default_one_also_where_sizes_are_symbolic() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        return (
            x + torch.randn((n, 3), generator=None, dtype=x.dtype),
            torch.randperm(n, generator=None),
            torch.rand(x.shape, generator=None),
            torch.randint(3, x.shape, generator=None),
        )

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for size in (2, 3, 4, 5):
        sides = []
        for side in (f, compiled):
            torch.manual_seed(size)
            sides.append(side(torch.ones(size, 3)))
        assert all(map(torch.equal, *sides))
    assert len(compiled.entries) == 2


def test_not_exported():
    class Model(nn.Module):
        def forward(self, x):
            return x + torch.rand(3, generator=torch.Generator().manual_seed(1))

    with pytest.raises(Exception, match="Generator"):
        framelift.export.export(Model(), (torch.zeros(3),), strict=True)
