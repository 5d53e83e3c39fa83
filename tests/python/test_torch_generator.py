"""Torch's generators of random numbers: as arguments, made inside, seeded, forked, their states taken and set."""

import threading

import pytest
import torch
from torch import nn

import framelift
from framelift.graph.state.random_draws import graphs_may_hold
from support import check, compiled


def _state(generator):
    return generator.get_state().tolist()


def _alike(fn, make, calls=3, graphs=1, backend="eager", **options):
    """`fn(x, generator)` gives the same numbers as in plain Python, and leaves the same states behind."""
    x = torch.arange(1.0, 7.0).reshape(2, 3)
    options.setdefault("fullgraph", True)
    fast = compiled(fn, backend=backend, **options)
    torch.manual_seed(11)
    mine, theirs = make(), make()
    start = framelift.stats()["graphs"]
    for i in range(calls):
        before = torch.get_rng_state()
        want = fn(x, theirs)
        after = torch.get_rng_state()
        torch.set_rng_state(before)
        got = fast(x, mine)
        assert torch.equal(want, got), i
        assert torch.equal(after, torch.get_rng_state()), i
        assert theirs is None or _state(mine) == _state(theirs), i
    if graphs is not None:
        assert framelift.stats()["graphs"] - start == graphs
    return fast


def _seeded():
    return torch.Generator().manual_seed(7)


def _uniform(x, g):
    return x + torch.rand(2, 3, generator=g)


def _several(x, g):
    y = x.clone().normal_(generator=g) + torch.empty(2, 3).uniform_(0, 2, generator=g)
    return y + torch.randint(5, (2, 3), generator=g) + torch.bernoulli(x / 10, generator=g)


def _sample(x, g):
    return torch.multinomial(x.softmax(-1), 2, generator=g).float() + torch.randperm(2, generator=g)


@pytest.mark.parametrize("fn", [_uniform, _several, _sample])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_drawn_from_a_generator_given(fn, backend):
    if backend != "eager" and not graphs_may_hold():
        pytest.skip("this torch compiles no generators")
    _alike(fn, _seeded, backend=backend)


def test_another_generator_is_no_new_capture():
    fast, start = compiled(_uniform, fullgraph=True), framelift.stats()["captures"]
    for i in range(4):
        mine, theirs = torch.Generator().manual_seed(i), torch.Generator().manual_seed(i)
        x = torch.zeros(2, 3)
        assert torch.equal(fast(x, mine), _uniform(x, theirs)) and _state(mine) == _state(theirs)
    assert framelift.stats()["captures"] - start == 1


def test_two_generators_and_one_given_twice():
    def f(x, g, h):
        return x + torch.rand(2, 3, generator=g) + torch.rand(2, 3, generator=h) * 2

    x, fast = torch.zeros(2, 3), compiled(f)
    g, h = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    a, b = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    assert torch.equal(fast(x, g, h), f(x, a, b)) and torch.equal(fast(x, h, g), f(x, b, a))
    assert torch.equal(fast(x, g, g), f(x, a, a)) and _state(g) == _state(a)


def test_seeded_inside():
    def f(x, g):
        g.manual_seed(5)
        return x + torch.randn(2, 3, generator=g)

    _alike(f, _seeded)


def test_made_inside():
    def f(x, _):
        g = torch.Generator().manual_seed(5)
        h = torch.Generator("cpu")
        return x + torch.rand(2, 3, generator=g) + torch.rand(2, 3, generator=h)

    _alike(f, lambda: None)


def test_made_inside_and_handed_out():
    def f(x):
        g = torch.Generator().manual_seed(5)
        return x + torch.rand(2, generator=g), g

    fast = compiled(f, fullgraph=True)
    for _ in range(2):
        y, g = fast(torch.zeros(2))
        z, h = f(torch.zeros(2))
        assert torch.equal(y, z) and type(g) is torch.Generator and _state(g) == _state(h)
    assert fast(torch.zeros(2))[1] is not g


def test_of_a_module():
    class Noise(nn.Module):
        def __init__(self):
            super().__init__()
            self.generator = torch.Generator().manual_seed(2)

        def forward(self, x):
            return x + torch.randn(x.shape, generator=self.generator)

    plain, fast = Noise(), Noise()
    run = compiled(fast, fullgraph=True)
    for _ in range(3):
        assert torch.equal(run(torch.ones(2, 3)), plain(torch.ones(2, 3)))


def test_the_default_one_by_name():
    _alike(lambda x, _: x + torch.rand(2, 3, generator=torch.default_generator) + torch.rand(2, 3), lambda: None)


def test_handed_back_as_it_is():
    def f(x, g):
        return x + torch.rand(2, generator=g), g, g.device

    fast, g = compiled(f, fullgraph=True), _seeded()
    assert fast(torch.zeros(2), g)[1] is g


def test_seed_of_the_process_then_numbers():
    def f(x, _):
        torch.manual_seed(3)
        return x + torch.rand(2, 3)

    _alike(f, lambda: None)


def test_seed_of_the_process_after_numbers():
    def f(x, _):
        y = torch.rand(2, 3)
        torch.manual_seed(3)
        return x + y

    _alike(f, lambda: None)


def test_seed_between_numbers_breaks():
    def f(x, _):
        y = torch.rand(2, 3)
        torch.manual_seed(3)
        return x + y + torch.rand(2, 3)

    _alike(f, lambda: None, graphs=2, fullgraph=False)


def test_state_taken_and_set():
    def f(x, _):
        state = torch.get_rng_state()
        y = torch.rand(2, 3)
        torch.set_rng_state(state)
        return x + y

    _alike(f, lambda: None)


def test_numbers_after_a_state_was_set_break():
    def f(x, _):
        state = torch.get_rng_state()
        y = torch.rand(2, 3)
        torch.set_rng_state(state)
        return x + y - torch.rand(2, 3)

    _alike(f, lambda: None, graphs=2, fullgraph=False)


def test_state_of_a_generator():
    def f(x, g):
        state = g.get_state()
        y = torch.rand(2, 3, generator=g)
        g.set_state(state)
        return x + y

    _alike(f, _seeded)


def test_state_handed_out():
    def f(x):
        return torch.get_rng_state(), x + torch.rand(3), torch.get_rng_state()

    torch.manual_seed(4)
    want = f(torch.zeros(3))
    torch.manual_seed(4)
    got = compiled(f, fullgraph=True)(torch.zeros(3))
    assert all(torch.equal(a, b) for a, b in zip(want, got))


def test_state_looked_into_breaks():
    _alike(
        lambda x, _: x + torch.get_rng_state().sum() % 7 + torch.rand(2, 3), lambda: None, graphs=None, fullgraph=False
    )


def test_state_from_outside_breaks():
    state = torch.Generator().manual_seed(9).get_state()

    def f(x, _):
        torch.set_rng_state(state)
        return x + torch.rand(2, 3)

    _alike(f, lambda: None, graphs=None, fullgraph=False)


@pytest.mark.parametrize("seed", [None, 5])
def test_fork(seed):
    def f(x, _):
        with torch.random.fork_rng(devices=[]):
            if seed is not None:
                torch.manual_seed(seed)
            y = x + torch.rand(2, 3)
        return y * 2

    _alike(f, lambda: None)


def test_forks_in_one_another():
    def f(x, _):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            with torch.random.fork_rng():
                torch.manual_seed(2)
                return x + torch.rand(2, 3)

    _alike(f, lambda: None)


def test_numbers_after_a_fork():
    def f(x, _):
        with torch.random.fork_rng():
            y = x + torch.rand(2, 3)
        return y + torch.rand(2, 3)

    _alike(f, lambda: None, graphs=2, fullgraph=False)


def test_break_inside_a_fork():
    def f(x, _):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            y = x + torch.rand(2, 3)
            framelift.graph_break()
            y = y + torch.rand(2, 3)
        return y + torch.rand(2, 3)

    _alike(f, lambda: None, graphs=None, fullgraph=False)


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


def test_exception_after_numbers_were_drawn():
    def f(x, g):
        return torch.rand(3, generator=g)[x]

    fast, mine, theirs = compiled(f), _seeded(), _seeded()
    for index in ([0, 2], [0, 9]):
        for run, generator in ((fast, mine), (f, theirs)):
            try:
                run(torch.tensor(index), generator)
            except IndexError:
                assert index == [0, 9]
    assert _state(mine) == _state(theirs)


def test_effects_stay_with_their_numbers():
    seen = []

    def f(x, g):
        seen.append(len(seen))
        return x + torch.rand(2, 3, generator=g)

    _alike(f, _seeded, graphs=None)
    assert len(seen) == 6


def test_dropout_after_a_seed():
    check(lambda x: (torch.manual_seed(0), nn.functional.dropout(x, 0.5))[1], torch.ones(4, 4))


def test_inside_a_body_of_an_operator():
    def f(x, g):
        return torch.utils.checkpoint.checkpoint(lambda y: y + torch.rand(2, 3, generator=g), x, use_reentrant=False)

    _alike(f, _seeded, graphs=None, fullgraph=False)


def test_threads_share_a_capture():
    x, results = torch.zeros(2, 3), {}
    fast = compiled(_uniform)
    fast(x, _seeded())

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        results[seed] = [fast(x, generator) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, got in results.items():
        generator = torch.Generator().manual_seed(seed)
        assert all(torch.equal(one, _uniform(x, generator)) for one in got)


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


@pytest.mark.skipif(not graphs_may_hold(), reason="this torch compiles no generators")
def test_a_copy_of_the_graph_draws_from_the_same_generator():
    import copy

    def copying(graph_module, _inputs):
        return copy.deepcopy(graph_module).forward

    _alike(_uniform, _seeded, backend=copying)


def test_torchs_own_generator_instead_of_another():
    def f(x, g):
        return x + torch.rand(2, 3) + torch.rand(2, 3, generator=g)

    x, fast = torch.zeros(2, 3), compiled(f)
    fast(x, _seeded())
    torch.manual_seed(6)
    want = f(x, torch.default_generator)
    torch.manual_seed(6)
    assert torch.equal(fast(x, torch.default_generator), want)


def test_not_exported():
    def f(x):
        return x + torch.rand(3, generator=torch.Generator().manual_seed(1))

    class Model(nn.Module):
        def forward(self, x):
            return f(x)

    with pytest.raises(Exception, match="Generator"):
        framelift.export.export(Model(), (torch.zeros(3),), strict=True)
