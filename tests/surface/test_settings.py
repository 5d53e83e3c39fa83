"""Settings of torch that captured code changes: default dtype, determinism, choice of kernels, inference mode."""

import pytest
import torch

import framelift
from support import check, compiled

BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def settings_as_they_were():
    yield
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark = True, False


def _settings():
    return (
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.enabled,
        torch.backends.cudnn.benchmark,
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
    )


def _alike(fn, *args, graphs=1, backend="eager", calls=2, fullgraph=None):
    fast = compiled(fn, backend=backend, fullgraph=graphs == 1 if fullgraph is None else fullgraph)
    start = framelift.stats()["graphs"]
    for _ in range(calls):
        before = _settings()
        want = fn(*args)
        after = _settings()
        torch.set_default_dtype(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=before[2])
        torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark = before[3:5]
        got = fast(*args)
        assert _settings() == after
        for one, other in zip(want if type(want) is tuple else (want,), got if type(got) is tuple else (got,)):
            assert torch.equal(one, other) and one.dtype == other.dtype
            assert (one.is_inference(), one.requires_grad) == (other.is_inference(), other.requires_grad)
        torch.set_default_dtype(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=before[2])
        torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark = before[3:5]
    if graphs is not None:
        assert framelift.stats()["graphs"] - start == graphs
    return fast


@pytest.mark.parametrize("backend", BACKENDS)
def test_default_dtype_for_a_while(backend):
    def f(x):
        y = x * 2
        torch.set_default_dtype(torch.float64)
        try:
            z = torch.ones(3) / 3
        finally:
            torch.set_default_dtype(torch.float32)
        return y + z, y

    _alike(f, torch.ones(3), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_default_dtype_that_stays(backend):
    def f(x):
        torch.set_default_dtype(torch.float64)
        return x + torch.ones(3), torch.arange(3) / 7

    _alike(f, torch.ones(3), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_default_dtypes_in_one_function(backend):
    def f(x):
        a = torch.rand(3) * 0 + x
        torch.set_default_dtype(torch.float64)
        b = torch.full((3,), 0.1)
        torch.set_default_dtype(torch.float32)
        return a + torch.full((3,), 0.1), b

    _alike(f, torch.ones(3), backend=backend, graphs=None, fullgraph=False)


def test_default_dtype_decides_values_that_are_taken():
    def f(x):
        torch.set_default_dtype(torch.float64)
        value = torch.full((1,), 0.1).item()
        torch.set_default_dtype(torch.float32)
        return x + (1 if value == 0.1 else 2)

    _alike(f, torch.ones(3), graphs=None, fullgraph=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_deterministic_algorithms_for_a_while(backend):
    def f(x):
        torch.use_deterministic_algorithms(True, warn_only=True)
        y = torch.zeros(3).index_add(0, torch.tensor([0, 0, 1]), x)
        torch.use_deterministic_algorithms(False)
        return y

    _alike(f, torch.ones(3), backend=backend)


def test_deterministic_algorithms_raise_as_in_plain_python():
    def f(x):
        torch.use_deterministic_algorithms(True)
        try:
            return torch.zeros(3).index_copy(0, torch.tensor([0, 1, 2]), x)
        finally:
            torch.use_deterministic_algorithms(False)

    _alike(f, torch.ones(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_kernels_switched(backend):
    def f(x):
        torch.backends.cudnn.enabled = False
        torch.backends.cudnn.benchmark = True
        y = x @ x
        torch.backends.cudnn.enabled = True
        return y

    _alike(f, torch.ones(3, 3), backend=backend)


def test_a_setting_between_operations_is_a_break():
    def f(x):
        y = x * 2
        torch.use_deterministic_algorithms(True)
        y = y + 1
        torch.use_deterministic_algorithms(False)
        return y * 3

    _alike(f, torch.ones(3), graphs=3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inference_mode_around_all(backend):
    def f(x):
        with torch.inference_mode():
            y = x * 2
            z = y.exp()
        return y, z

    _alike(f, torch.ones(3, requires_grad=True), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inference_mode_as_decorator(backend):
    @torch.inference_mode()
    def f(x, y):
        y.add_(1)
        return x * 2, y.view(3, 1)

    _alike(f, torch.ones(3, requires_grad=True), torch.zeros(3), backend=backend, calls=1)


@pytest.mark.parametrize("makes_a_leaf", [torch.Tensor.requires_grad_, torch.nn.Parameter])
def test_inference_tensors_cannot_become_leaves_outside(makes_a_leaf):
    def f(x):
        with torch.inference_mode():
            y = x * 2
        try:
            makes_a_leaf(y)
        except RuntimeError as error:
            return str(error)
        return "a leaf"

    assert framelift.compile(f, backend="eager")(torch.ones(2)) == f(torch.ones(2))


def test_inference_mode_of_a_method_that_is_called():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)

        @torch.inference_mode()
        def predict(self, x):
            return self.inner(x).relu()

        def forward(self, x):
            return self.predict(x)

    _alike(Model(), torch.ones(2, 3))


def _around_a_part(x):
    y = x * 3
    with torch.inference_mode():
        z = y * 2
    return y.sin(), z


def _then_more(x):
    with torch.inference_mode():
        y = x * 2
    return y + 1, x * 3


def _off_inside(x):
    with torch.inference_mode():
        with torch.inference_mode(False):
            y = torch.ones(3) * 2
        return x * 2 + y.sum(), torch.tensor(float(torch.is_inference_mode_enabled()))


def _twice(x):
    a = x * 2
    with torch.inference_mode():
        b = a + 1
    c = x - 1
    with torch.no_grad(), torch.inference_mode():
        d = c * b
        d.add_(1)
    with torch.no_grad():
        e = c + d
    return a, b, c, d, e, b + d


def _views(x):
    y = x * 2
    with torch.inference_mode():
        view, copied = y[:2], y.clone()
        copied[0] = 5
    return view, copied, copied.view(3, 1)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_around_a_part, _then_more, _off_inside, _twice, _views])
def test_inference_mode_around_a_part(program, backend, grad):
    whole = backend == "eager"  # compilers have one mode for a graph
    _alike(program, torch.ones(3, requires_grad=grad), graphs=1 if whole else None, backend=backend, fullgraph=whole)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_what_an_inference_tensor_refuses_outside_of_the_mode(fullgraph):
    def saves(x):
        with torch.inference_mode():
            y = torch.ones(3) * 2
        return x * y

    def writes(x):
        with torch.inference_mode():
            y = torch.ones(3) * 2
        y.add_(1)
        return x + y

    for program in (saves, writes):
        fast = framelift.compile(program, backend="eager", fullgraph=fullgraph)
        for function in (program, fast):
            with pytest.raises(RuntimeError, match="[Ii]nference"):
                function(torch.ones(3, requires_grad=True))


def test_an_inference_mode_is_left_where_the_graph_raises():
    def f(x, i):
        y = x * 2
        with torch.inference_mode():
            z = y[i]
        return y, z

    fast = framelift.compile(f, backend="eager", fullgraph=True)
    fast(torch.ones(3), torch.tensor([1]))
    with pytest.raises(IndexError):
        fast(torch.ones(3), torch.tensor([7]))
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def test_break_inside_an_inference_mode():
    def f(x):
        with torch.inference_mode():
            y = x * 2
            framelift.graph_break()
            z = y + 1
        return y, z

    _alike(f, torch.ones(3, requires_grad=True), graphs=None, fullgraph=False)


def test_exception_inside_an_inference_mode():
    def f(x):
        with torch.inference_mode():
            y = x * 2
            if y.shape[0] == 3:
                raise ValueError("three")
        return y

    check(f, torch.ones(3), raises=ValueError, graphs=0, breaks=None)
    assert not torch.is_inference_mode_enabled()


def test_inference_mode_made_outside():
    mode = torch.inference_mode()

    def f(x):
        with mode:
            return x * 2

    _alike(f, torch.ones(3, requires_grad=True), graphs=None, fullgraph=False)


def test_not_exported():
    class Model(torch.nn.Module):
        def forward(self, x):
            torch.set_default_dtype(torch.float64)
            y = x + torch.ones(3)
            torch.set_default_dtype(torch.float32)
            return y

    with pytest.raises(Exception, match="setting"):
        framelift.export.export(Model(), (torch.zeros(3),), strict=True)


# ---- precision -------------------------------------------------------------------------------------------------------


_PAIRS = [
    ("generic", "all"),
    *((backend, op) for backend in ("cuda", "mkldnn") for op in ("all", "conv", "rnn", "matmul")),
]


def _precision():
    found = [torch._C._get_fp32_precision_getter(*pair) for pair in _PAIRS]
    matmul = torch.backends.cuda.matmul
    return [*found, matmul.allow_fp16_reduced_precision_reduction, torch.backends.cudnn.enabled]


def _as_at_first():
    torch.set_float32_matmul_precision("highest")
    for backend in ("cuda", "mkldnn"):
        torch._C._set_fp32_precision_setter(backend, "matmul", "none")
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
    torch.backends.fp32_precision = "none"


@pytest.fixture
def precision_as_it_was():
    _as_at_first()
    yield
    _as_at_first()


def _flags_of_cudnn(x):
    y = x * 3
    with torch.backends.cudnn.flags(enabled=False, benchmark=True, allow_tf32=False):
        z = y @ x
    return z + 1


def _matmul_precision_for_a_while(x):
    old = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    y = x @ x
    torch.set_float32_matmul_precision(old)
    return y


def _matmul_precision_that_stays(x):
    torch.set_float32_matmul_precision("high")
    return x @ x


def _tf32_that_stays(x):
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = False
    return x @ x


def _reductions(x):
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    return x @ x


def _newer_ways(x):
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    return x @ x


def _precision_of_all(x):
    torch.backends.fp32_precision = "ieee"
    return x @ x


@pytest.mark.parametrize(
    "fn",
    [
        _flags_of_cudnn,
        _matmul_precision_for_a_while,
        _matmul_precision_that_stays,
        _tf32_that_stays,
        _reductions,
        _newer_ways,
        _precision_of_all,
    ],
    ids=lambda fn: fn.__name__[1:],
)
def test_precisions_set_inside(fn, precision_as_it_was):
    x, found = torch.rand(3, 3), []
    for run in (fn, compiled(fn)):
        for _ in range(2):
            found.append((run(x), _precision()))
            _as_at_first()
    assert all(torch.equal(one[0], found[0][0]) and one[1] == found[0][1] for one in found)
    assert bool(framelift.stats()["breaks"]) == (fn in (_reductions, _precision_of_all, _flags_of_cudnn))


def test_a_precision_set_inside_is_guarded_and_is_the_graphs(precision_as_it_was):
    seen = []

    def backend(graph, inputs):
        seen.append(torch.get_float32_matmul_precision())
        return lambda *inputs: seen.append(torch.get_float32_matmul_precision()) or graph(*inputs)

    fast = framelift.compile(_matmul_precision_for_a_while, backend=backend, fullgraph=True)
    for level in ("highest", "highest", "high"):
        torch.set_float32_matmul_precision(level)
        fast(torch.ones(2, 2))
        assert torch.get_float32_matmul_precision() == level
    assert seen == ["medium"] * 5


def test_two_precisions_in_one_function(precision_as_it_was):
    def f(x):
        y = x @ x
        torch.set_float32_matmul_precision("high")
        return y @ x

    fast = compiled(f)
    torch.testing.assert_close(fast(torch.eye(3)), torch.eye(3))
    assert framelift.stats()["graphs"] == 2 and torch.get_float32_matmul_precision() == "high"


@pytest.mark.parametrize("at_first", ["highest", "high"])
def test_tensor_cores_for_a_while(at_first, precision_as_it_was):
    def f(x):
        matmul = torch.backends.cuda.matmul
        old, matmul.allow_tf32 = matmul.allow_tf32, False
        y = x @ x + matmul.allow_tf32
        matmul.allow_tf32 = old
        return y

    x, found = torch.rand(3, 3), []
    for run in (f, compiled(f, fullgraph=True)):
        for _ in range(3):
            torch.set_float32_matmul_precision(at_first)
            found.append((run(x), _precision()))
    assert all(torch.equal(one[0], found[0][0]) and one[1] == found[0][1] for one in found)
    assert framelift.stats()["graphs"] == 1


@pytest.mark.parametrize(
    "ask, change, back",
    [
        (torch.get_float32_matmul_precision, lambda: torch.set_float32_matmul_precision("high"), lambda: None),
        (
            lambda: torch.backends.cuda.matmul.allow_tf32,
            lambda: torch.set_float32_matmul_precision("high"),
            lambda: None,
        ),
        (
            lambda: torch.backends.mkldnn.matmul.fp32_precision,
            lambda: torch.set_float32_matmul_precision("high"),
            lambda: None,
        ),
        (
            lambda: torch.backends.cuda.math_sdp_enabled(),
            lambda: torch.backends.cuda.enable_math_sdp(False),
            lambda: torch.backends.cuda.enable_math_sdp(True),
        ),
        (torch.is_anomaly_enabled, lambda: torch.set_anomaly_enabled(True), lambda: torch.set_anomaly_enabled(False)),
        (
            torch._C._autograd._saved_tensors_hooks_is_enabled,
            lambda: torch._C._autograd._saved_tensors_hooks_disable("no"),
            lambda: torch._C._autograd._saved_tensors_hooks_enable(),
        ),
    ],
    ids=["products", "cublas", "mkldnn", "attention", "anomalies", "saved tensors"],
)
def test_a_setting_that_is_read_is_guarded(ask, change, back, precision_as_it_was):
    def f(x):
        return x + len(str(ask()))

    fast, x = compiled(f, fullgraph=True), torch.ones(2)
    assert torch.equal(fast(x), f(x))
    try:
        change()
        assert torch.equal(fast(x), f(x))
    finally:
        back()


def test_attention_kernels_read_after_others_were_chosen():
    def f(x):
        torch.backends.cuda.enable_flash_sdp(False)
        answer = torch.backends.cuda.math_sdp_enabled()
        torch.backends.cuda.enable_flash_sdp(True)
        return x + (1 if answer else 2)

    fast, x = compiled(f), torch.ones(2)
    try:
        for value in (True, False, True):
            torch.backends.cuda.enable_math_sdp(value)
            assert torch.equal(fast(x), f(x))
    finally:
        torch.backends.cuda.enable_math_sdp(True)


def test_hooks_on_saved_tensors_forbidden_inside():
    def f(x):
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            return x.exp() * x

    fast = compiled(f, fullgraph=True)
    reported = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message
    for around in (None, "outer"):
        if around:
            torch._C._autograd._saved_tensors_hooks_disable(around)
        try:
            assert torch.equal(fast(torch.ones(2)), f(torch.ones(2))) and reported() == around
        finally:
            torch._C._autograd._saved_tensors_hooks_enable()
