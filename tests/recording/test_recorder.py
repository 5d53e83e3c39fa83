"""The recorder alone, without twins: programs run once over stand-ins, their graphs are compared with eager."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framelift
from framelift.exc import InternalError
from framelift.graph.metadata.cache import shared_cache
from framelift.vocabulary.reasons import Interrupt
from framelift.recording.recorder import Finished, TapeRecorder
from framelift.recording.rules.operations import is_torch_operation

from recorder_programs import PROGRAMS


def flat(out: Any) -> list[torch.Tensor]:
    return [out] if isinstance(out, torch.Tensor) else [tensor for tensor in out if isinstance(tensor, torch.Tensor)]


def record(function, *inputs) -> tuple[Finished, list[dict[str, Any]]]:
    """The graph of a function, and what its results' stand-ins say of themselves."""
    recorder = TapeRecorder()
    with recorder.recording():
        outs = flat(function(*(recorder.stand_in(tensor, "x") for tensor in inputs)))
        said = [describe(out) for out in outs]
    return recorder.finish(outs), said


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    try:
        stride = tensor.stride()
    except Interrupt as interrupt:
        assert interrupt.reason.id == "tensor-data"
        stride = "not told"
    return {
        "shape": tensor.shape,
        "stride": stride,
        "dtype": tensor.dtype,
        "device": tensor.device,
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
        "type": type(tensor),
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
    }


def make(name: str) -> tuple[Any, list[torch.Tensor]]:
    function, makers = PROGRAMS[name]
    torch.manual_seed(0)
    return function, [maker() for maker in makers]


def state() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
        torch.get_rng_state().tolist(),
        torch._C._len_torch_function_stack(),
        torch.is_inference_mode_enabled(),
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_graph_equals_eager(name: str) -> None:
    function, inputs = make(name)
    before = state()
    finished, said = record(function, *inputs)
    assert state() == before

    torch.manual_seed(1)
    _, same = make(name)
    torch.manual_seed(1)
    want = flat(function(*same))
    torch.manual_seed(1)
    got = finished.graph_module(*finished.inputs)
    assert isinstance(got, tuple) and len(got) == len(want)
    for mine, theirs, claim in zip(got, want, said):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
        if claim["stride"] == "not told":
            claim["stride"] = theirs.stride()
        assert describe(theirs) == claim
        assert describe(mine) == claim | {"is_leaf": mine.is_leaf}
    for mine, theirs in zip(inputs, same):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    # A weight cast twice instead of once rounds its gradient elsewhere (graph/state/torch_state.py).
    compare_gradients(inputs, got, same, want, 1e-2 if name == "autocast_cpu" else 0)


def compare_gradients(inputs, got, same, want, tolerance: float) -> None:
    for leaves, outs in ((inputs, got), (same, want)):
        roots = [
            out.double().abs().sum() if not out.is_complex() else out.abs().sum().double()
            for out in outs
            if out.requires_grad
        ]
        if roots:
            sum(roots).backward()
    for mine, theirs in zip(inputs, same):
        assert (mine.grad is None) == (theirs.grad is None)
        if theirs.grad is not None:
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_recording_asks_no_fakes(name: str) -> None:
    function, inputs = make(name)
    first, said = record(function, *inputs)
    misses = shared_cache().misses
    second, again = record(function, *inputs)
    assert shared_cache().misses == misses
    assert said == again and first.graph_module.code == second.graph_module.code


INTERRUPTS = {
    "tensor-bool": [
        lambda x: x.sum() > 0 and 1,
        lambda x: 1 if x[0, 0] else 2,
        lambda x: 1.0 in x,
        lambda x: bool(x.sum()),
        lambda x: x.sum().is_nonzero(),
    ],
    "tensor-item": [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: float(x[0, 0]),
        lambda x: int(x[0, 0]),
        lambda x: [1, 2, 3][x[0, 0].long()],
        lambda x: complex(x[0, 0]),
        lambda x: torch.tensor([x[0], x[1]]),
        lambda x: torch.equal(x, x),
        lambda x: torch.allclose(x, x),
        lambda x: torch.zeros(x[0, 0].long()),
    ],
    "tensor-data": [
        lambda x: x.data_ptr(),
        lambda x: x.untyped_storage(),
        lambda x: x.storage_offset(),
        lambda x: x._version,
        lambda x: x._base,
        lambda x: (x * 1).requires_grad and 0 or (x.new_ones(1).data_ptr()),
        lambda x: torch.utils.dlpack.to_dlpack(x) if False else x.__dlpack__(),
    ],
    "tensor-repr": [repr, str, lambda x: f"{x}", lambda x: f"{x.sum():.2f}"],
    "data-dependent-shape": [
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.unique(),
        lambda x: x.masked_select(x > 0),
    ],
    "torch-operation": [
        lambda x: x.sum().backward(),
        lambda x: x.register_hook(print),
        lambda x: torch.nn.Parameter(x) * 2,
        lambda x: x.requires_grad_(),
        lambda x: setattr(x, "requires_grad", True),
        lambda x: setattr(x, "data", x * 2),
        lambda x: x.t_() if False else x.unsqueeze_(0),
        lambda x: torch.rand(3, generator=torch.Generator()),
        lambda x: x.resize_(2),
        lambda x: x.apply_(abs),
    ],
    "tensor-kind": [lambda x: x.to_sparse()],
    "torch-operation-failed": [lambda x: x @ x, lambda x: x.view(5), lambda x: torch.cat([x, x[0]])],
}


@pytest.mark.parametrize(
    "reason,index", [(reason, i) for reason, cases in INTERRUPTS.items() for i in range(len(cases))]
)
def test_interrupts(reason: str, index: int) -> None:
    function = INTERRUPTS[reason][index]
    x = torch.randn(3, 4)
    before = state()
    with pytest.raises(Interrupt) as caught:
        record(lambda x: (function(x), x)[1], x)
    assert caught.value.reason.id == reason, caught.value.sentence
    assert state() == before


def test_writes_that_autograd_forbids_interrupt() -> None:
    p = torch.randn(3, 4, requires_grad=True)

    def leaf(p):
        p.add_(1)

    def view_of_leaf(p):
        p[0].add_(1)

    def one_of_many_views(p):
        (p * 2).unbind(0)[0].add_(1)

    def view_made_without_grad(p):
        y = p * 2
        with torch.no_grad():
            v = y[0]
        v.add_(p[0])

    for function in (leaf, view_of_leaf, one_of_many_views, view_made_without_grad):
        with pytest.raises(RuntimeError):
            function(p)
        with pytest.raises(Interrupt):
            record(lambda p: (function(p), p)[1], p)


def test_write_that_gives_an_input_history() -> None:
    _, said = record(lambda x, p: (x.add_(p), x)[1], torch.zeros(3), torch.ones(3, requires_grad=True))
    assert said[0]["requires_grad"] and not said[0]["is_leaf"]
    with pytest.raises(Interrupt) as caught:  # it would be another tensor's history too
        record(lambda x, p: x.add_(p), torch.zeros(4)[1:], torch.ones(3, requires_grad=True))
    assert caught.value.reason.id == "torch-operation"


@pytest.mark.parametrize(
    "tensor,reason",
    [
        (torch.ones(3).to_sparse(), "tensor-kind"),
        (torch._efficientzerotensor(3), "tensor-kind"),
        (torch.nn.UninitializedParameter(), "tensor-subclass"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "tensor-kind"),
        (torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "tensor-kind"),
    ],
)
def test_unsupported_inputs(tensor: torch.Tensor, reason: str) -> None:
    with pytest.raises(Interrupt) as caught:
        TapeRecorder().stand_in(tensor)
    assert caught.value.reason.id == reason


def test_fake_input_is_a_subclass() -> None:
    with torch._subclasses.FakeTensorMode():
        fake = torch.ones(2)
    with pytest.raises(Interrupt) as caught:
        TapeRecorder().stand_in(fake)
    assert caught.value.reason.id == "tensor-subclass"


def test_one_tensor_one_stand_in() -> None:
    recorder = TapeRecorder()
    x = torch.ones(3)
    assert recorder.stand_in(x) is recorder.stand_in(x)
    assert recorder.external(recorder.stand_in(x)) is x
    assert recorder.is_stand_in(recorder.stand_in(x)) and not recorder.is_stand_in(x)
    with recorder.recording():
        y = recorder.stand_in(x) + 1
    assert recorder.is_stand_in(y) and recorder.external(y) is None


def test_cuda_stand_in_says_cuda() -> None:
    # No GPU is needed: facts are facts.
    from framelift.graph.metadata.facts import facts_of, new_stand_in
    from framelift.graph.fx.values import Storage, Value

    recorder = TapeRecorder()
    facts = facts_of(torch.ones(2, 3)).but(device=torch.device("cuda", 0))
    value = Value(new_stand_in(facts), facts, Storage(True))
    value.external = torch.ones(2, 3)
    recorder.by_stand_in[id(value.stand_in)] = value
    with recorder.recording():
        x = value.stand_in
        y = (x * 2).relu()
        assert x.is_cuda and y.is_cuda and not y.is_cpu and not y.is_meta
        assert y.device == torch.device("cuda:0") and y.get_device() == 0 and y.type() == "torch.cuda.FloatTensor"
        assert y.cpu().device == torch.device("cpu") and torch.zeros_like(y).is_cuda


def test_real_tensor_is_an_internal_error() -> None:
    stray = torch.ones(3)
    with pytest.raises(InternalError):
        record(lambda x: x + stray, torch.ones(3))


def test_unused_operations_stay_and_unused_inputs_do_not() -> None:
    def function(x, y, z):
        y.sin()  # on real data an operation may raise, whoever needs its result
        z.size()
        return x * 2

    finished, _ = record(function, torch.ones(3), torch.ones(3), torch.ones(3))
    assert len(finished.inputs) == 2 and finished.n_ops == 2
    only_shapes, _ = record(lambda x: [x.sin().size()][:0] or torch.zeros(1), torch.ones(3))
    assert only_shapes.n_ops == 2


def test_mutated_and_shared_inputs_are_told() -> None:
    base = torch.zeros(4)
    finished, _ = record(lambda a, b, c: (a.add_(1), b + c)[1], base[:2], base[2:], torch.ones(2))
    assert len(finished.inputs) == 3
    mutated = {id(finished.inputs[i]) for i in finished.mutated}
    assert id(finished.inputs[0]) in mutated and finished.shared == ((0, 1),)


def test_state_without_operations_leaves_no_node() -> None:
    def function(x):
        with torch.no_grad():
            pass
        with torch.autocast("cpu"):
            x.shape
        return x + 1

    finished, _ = record(function, torch.ones(3))
    assert len(finished.graph_module.graph.nodes) == 3


def test_state_left_changed_is_told_and_the_process_is_not_changed() -> None:
    def function(x):
        torch._C._set_grad_enabled(False)
        return x * 2

    finished, said = record(function, torch.ones(3, requires_grad=True))
    assert torch.is_grad_enabled() and finished.left_state == ((torch._C._set_grad_enabled, (False,)),)
    assert not finished.graph_module(*finished.inputs)[0].requires_grad and torch.is_grad_enabled()


def test_default_dtype_inside() -> None:
    def harmless(x):
        torch.set_default_dtype(torch.float64)
        torch.set_default_dtype(torch.float32)
        return x + 1

    def harmful(x):
        torch.set_default_dtype(torch.float64)
        return x + torch.ones(3)

    record(harmless, torch.ones(3))
    with pytest.raises(Interrupt) as caught:
        record(harmful, torch.ones(3))
    assert caught.value.reason.id == "torch-state" and torch.get_default_dtype() is torch.float32


def test_an_exit_inside_with_blocks_leaves_their_state() -> None:
    recorder = TapeRecorder()
    real = torch.ones(2, 2)
    with recorder.recording():
        x = recorder.stand_in(real)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            y = x @ x
            recorder.mark_end()
    finished = recorder.finish([y])
    assert finished.left_state == (
        (torch._C._set_grad_enabled, (False,)),
        (torch.set_autocast_enabled, ("cpu", True)),
        (torch.set_autocast_dtype, ("cpu", torch.float16)),
        (torch.autocast_increment_nesting, ()),
    )
    assert finished.graph_module(*finished.inputs)[0].dtype is torch.float16


def test_inference_mode_inside() -> None:
    def function(x):
        with torch.inference_mode():
            y = x * 2
            assert y.is_inference() and not torch.is_grad_enabled()
        assert torch.is_grad_enabled()
        return y, x * 3

    x = torch.ones(3, requires_grad=True)
    finished, said = record(function, x)
    y, z = finished.graph_module(*finished.inputs)
    assert y.is_inference() and z.requires_grad and not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
    assert [s["requires_grad"] for s in said] == [False, True]


def test_state_is_restored_after_an_exception() -> None:
    before = state()

    def function(x):
        torch._C._set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.autocast("cpu").__enter__()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        record(function, torch.ones(3))
    torch.clear_autocast_cache()
    assert state() == before


def test_active_modes_are_refused() -> None:
    with torch.device("meta"), pytest.raises(Interrupt) as caught, TapeRecorder().recording():
        pass
    assert caught.value.reason.id == "active-mode"


def test_numbers_of_equal_value_are_told_apart() -> None:
    x = torch.ones(3, dtype=torch.int64)
    for number, dtype in ((1, torch.int64), (1.0, torch.float32), (True, torch.int64), (1, torch.int64)):
        _, said = record(lambda x: x * number, x)
        assert said[0]["dtype"] is dtype
    for number, dtype in ((1, torch.int64), (1.0, torch.float32), (True, torch.bool), (1j, torch.complex64)):
        _, said = record(lambda x: torch.tensor(number), x)
        assert said[0]["dtype"] is dtype


def test_lists_changed_afterwards_do_not_matter() -> None:
    def function(x):
        parts = [x, x * 2]
        index = [0, 1]
        out = torch.cat(parts)[index]
        parts.clear()
        index[0] = 5
        return out

    finished, _ = record(function, torch.arange(3.0))
    assert finished.graph_module(*finished.inputs)[0].tolist() == [0.0, 1.0]


def test_operations_are_known() -> None:
    for func in (
        torch.sin,
        F.linear,
        F.relu,
        torch.Tensor.add,
        torch.Tensor.__getitem__,
        torch.zeros,
        torch.tensor,
        torch.einsum,
        torch.ops.aten.add,
        torch.ops.aten.add.Tensor,
        torch.Tensor.split,
        F.max_pool2d,
        torch.linalg.norm,
        torch.fft.fft,
        torch.nn.init.normal_,
        torch.Tensor.size,
        torch.Tensor.__len__,
        torch.as_tensor,
        torch.special.expit,
    ):
        assert is_torch_operation(func), func
    for func in (
        torch.is_grad_enabled,
        torch.is_tensor,
        torch.finfo,
        torch.get_default_dtype,
        torch.nn.Linear,
        len,
        torch.no_grad,
        torch.nn.Module.__call__,
        torch.compiler.is_compiling,
        torch.utils.checkpoint.checkpoint,
        torch.sym_int,
    ):
        assert not is_torch_operation(func), func


def test_nothing_is_kept_alive() -> None:
    import weakref

    x = torch.ones(3)
    recorder = TapeRecorder()
    with recorder.recording():
        y = recorder.stand_in(x) * 2
    finished = recorder.finish([y])
    seen = [weakref.ref(y), weakref.ref(recorder.stand_in(x)), weakref.ref(x)]
    del recorder, y, x, finished
    gc.collect()
    assert [ref() for ref in seen] == [None, None, None]


def test_strides_chosen_by_kernels_are_not_told() -> None:
    x, w, b = torch.randn(2, 5, 3).mT, torch.rand(3), torch.rand(3)

    def reads(x, w, b):
        y = F.batch_norm(x, None, None, w, b, training=True)
        return y.is_contiguous() and y

    def contiguous(x, w, b):
        y = F.batch_norm(x, None, None, w, b, training=True).contiguous()
        assert y.is_contiguous()
        return y.view(-1)

    with pytest.raises(Interrupt) as caught:
        record(reads, x, w, b)
    assert caught.value.reason.id == "tensor-data"
    finished, _ = record(contiguous, x, w, b)
    torch.testing.assert_close(finished.graph_module(*finished.inputs)[0], contiguous(x, w, b))


def test_direct_call_is_the_same_as_through_the_mode() -> None:
    recorder = TapeRecorder()
    x = torch.randn(3, 4)
    with recorder.recording():
        s = recorder.stand_in(x)
        a = recorder.call(F.relu, (s,), {"inplace": False})
        b = recorder.call(torch.Tensor.add, (a, 1), {"alpha": 2})
        c = recorder.call(b.__radd__, (1,), {})
        d = recorder.call(c.mul, (2,), {})
        assert recorder.attribute(d, "shape") == (3, 4) and recorder.call(d.size, (0,), {}) == 3
        assert recorder.call(torch.Tensor, ([1, 2],), {}).dtype is torch.float32 and recorder.call(
            torch.Tensor, (2, 3), {}
        ).shape == (2, 3)
        assert recorder.attribute(d, "T").shape == (4, 3)
        assert recorder.call(torch.Tensor.__eq__, (d, None), {}) is NotImplemented
        assert (d == None) is False  # noqa: E711
    finished = recorder.finish([d])
    torch.testing.assert_close(finished.graph_module(*finished.inputs)[0], (F.relu(x) + 2 + 1) * 2)


def test_a_hit_is_cheap() -> None:
    """A bound wide enough for a busy machine; the figure itself is printed."""
    recorder = TapeRecorder()
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    n = 300
    with recorder.recording():
        s, v = recorder.stand_in(x), recorder.stand_in(w)
        for _ in range(2):
            F.linear(s, v).relu()
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            y = s
            for _ in range(n):
                y = F.linear(y, v).relu()
            best = min(best, (time.process_time() - start) / (2 * n))
    print(f"{best * 1e6:.1f} us per recorded operation")
    assert best < 60e-6


def test_views_of_parameters_without_grad_mode() -> None:
    """Such a view is a leaf that requires grad: fine inside the graph, refused where a compiler would return it."""
    weight = torch.nn.Parameter(torch.ones(3, 1))

    def inside(x):
        with torch.no_grad():
            wide = weight.expand(3, 4)
            return wide.requires_grad, wide * x

    def outside(x):
        with torch.no_grad():
            return weight.expand(3, 4), x + 1

    x = torch.ones(4)
    flag, result = framelift.compile(inside, backend="eager", fullgraph=True)(x)
    assert (
        flag is inside(x)[0]
        and torch.equal(result, inside(x)[1])
        and result.requires_grad == inside(x)[1].requires_grad
    )
    view, result = framelift.compile(outside, backend="eager", fullgraph=True)(x)
    assert view.requires_grad and view.is_leaf and view.data_ptr() == weight.data_ptr() and torch.equal(result, x + 1)
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(outside, backend="aot_eager", fullgraph=True)(x)
