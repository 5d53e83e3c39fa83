"""The public names.

Forms of compile, options, errors, what a compiled callable shows, statistics, installation errors.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import framelift
from support import check

ROOT = Path(__file__).resolve().parents[2]
X = torch.tensor([1.0, 2.0])


def double(x, n=2):
    """Doubles."""
    return x * n


inner = framelift.compile(double, backend="eager")


# -- forms -------------------------------------------------------------------------------------------------------------


def test_three_forms_are_equal() -> None:
    @framelift.compile(backend="eager")
    def one(x):
        return x + 1

    @framelift.compile
    def two(x):
        return x + 1

    three = framelift.compile(lambda x: x + 1, backend="eager")
    assert torch.equal(one(X), X + 1) and torch.equal(three(X), X + 1)
    assert callable(two)


def test_a_compiled_function_looks_like_its_function() -> None:
    compiled = framelift.compile(double, backend="eager")
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == (
        double.__name__,
        double.__doc__,
        double.__module__,
    )
    assert compiled.__wrapped__ is double
    assert inspect.signature(compiled) == inspect.signature(double)
    assert torch.equal(compiled(X, n=3), X * 3)


def test_a_compiled_module_is_a_module() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compiled = framelift.compile(model, backend="eager")
    assert torch.equal(compiled(X), model(X))
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in model.parameters()]
    assert [id(v) for v in compiled.state_dict(keep_vars=True).values()] == [
        id(v) for v in model.state_dict(keep_vars=True).values()
    ]
    compiled.eval()
    assert not model.training


def test_methods() -> None:
    class Scale:
        def __init__(self, by):
            self.by = by

        @framelift.compile(backend="eager")
        def apply(self, x):
            return x * self.by

        def plain(self, x):
            return x + self.by

    assert torch.equal(Scale(2).apply(X), X * 2) and torch.equal(Scale(5).apply(X), X * 5)
    bound = framelift.compile(Scale(3).plain, backend="eager")
    assert torch.equal(bound(X), X + 3) and torch.equal(bound(X), X + 3)


def test_disable_runs_plain_python() -> None:
    compiled = framelift.compile(double, backend="eager", disable=True)
    before = framelift.stats()["captures"]
    assert torch.equal(compiled(X), X * 2)
    assert framelift.stats()["captures"] == before


def test_config_disable() -> None:
    compiled = framelift.compile(double, backend="eager")
    with framelift.config.patch(disable=True):
        compiled(X)
        assert framelift.stats()["captures"] == 0
    compiled(X)
    assert framelift.stats()["captures"] == 1


def test_nested_compiled_functions() -> None:
    def outer(x):
        return inner(x) + 1

    check(outer, X)


# -- errors ------------------------------------------------------------------------------------------------------------


def test_unknown_backend() -> None:
    with pytest.raises(framelift.exc.InvalidBackend, match="inductr"):
        framelift.compile(double, backend="inductr")(X)


def test_not_callable() -> None:
    with pytest.raises((TypeError, framelift.exc.FrameliftError)):
        framelift.compile(3)


def test_mode_and_options_exclude_each_other() -> None:
    with pytest.raises(RuntimeError):
        framelift.compile(double, mode="default", options={"max_autotune": True})


def test_failing_backend_is_named() -> None:
    def broken(graph_module, example_inputs):
        raise KeyError("no such thing")

    with pytest.raises(framelift.exc.BackendCompilerFailed, match="no such thing") as caught:
        framelift.compile(double, backend=broken)(X)
    assert isinstance(caught.value.__cause__, KeyError)


def test_fullgraph_names_the_reason_and_the_line() -> None:
    def f(x):
        y = x + 1
        if y.sum() > 0:
            return y
        return x

    with pytest.raises(framelift.exc.Unsupported) as caught:
        framelift.compile(f, backend="eager", fullgraph=True)(X)
    assert caught.value.reason == "tensor-bool"
    assert "test_api.py" in str(caught.value)
    assert "fix: Compute both sides and choose with `torch.where(" in str(caught.value)


def test_without_fullgraph_a_break_is_no_error() -> None:
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    check(f, X, breaks=None, graphs=None, fullgraph=False)
    assert framelift.stats()["breaks"]


def test_config_rejects_unknown_names_and_types() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        framelift.config.nonsense = 1
    with pytest.raises(AttributeError, match="did you mean recompile_limit"):
        framelift.config.recompile_limits = 1
    with pytest.raises(TypeError):
        framelift.config.recompile_limit = "many"
    with framelift.config.patch(recompile_limit=3):
        assert framelift.config.recompile_limit == 3
    assert framelift.config.recompile_limit == framelift.config.OPTIONS["recompile_limit"].default


# -- what can be seen --------------------------------------------------------------------------------------------------


def test_entries_show_graph_guards_and_source() -> None:
    compiled = framelift.compile(double, backend="eager")
    compiled(X)
    (entry,) = compiled.entries
    assert isinstance(entry.info.graph_module, torch.fx.GraphModule)
    assert any(g.startswith("x ") for g in entry.info.guards)
    assert "def " in entry.info.source and "return" in entry.info.source
    compile(entry.info.source, "<entry>", "exec")


def test_statistics() -> None:
    compiled = framelift.compile(double, backend="eager")
    compiled(X)
    compiled(X)
    compiled(torch.ones(5))
    stats = framelift.stats()
    assert stats["captures"] == stats["graphs"] == 2
    assert stats["breaks"] == {} and stats["guards"] > 0
    assert len(stats["recompiles"]) == 1
    framelift.reset()
    assert framelift.stats()["captures"] == 0


def test_reset_forgets_entries() -> None:
    compiled = framelift.compile(double, backend="eager")
    compiled(X)
    framelift.reset()
    assert torch.equal(compiled(X), X * 2)
    assert framelift.stats()["captures"] == 1


def test_reset_forgets_what_was_better_left_to_plain_python() -> None:
    def f(x, give):
        leaf = x.detach().requires_grad_()
        scaled = leaf * 2
        return (leaf, scaled) if give else torch.autograd.grad(scaled.sum(), leaf)

    framelift.compile(f, backend="eager")(X, True)
    assert framelift.stats()["breaks"]
    framelift.reset()
    framelift.compile(f, backend="eager", fullgraph=True)(X, False)


def test_recompile_limit_falls_back_to_plain_python() -> None:
    compiled = framelift.compile(double, backend="eager")
    with framelift.config.patch(recompile_limit=3):
        for n in range(8):
            assert torch.equal(compiled(torch.ones(2), f"{n}" and n), torch.ones(2) * n)
    assert framelift.stats()["captures"] <= 4


def test_backend_receives_a_graph_and_examples() -> None:
    seen = []

    def backend(graph_module, example_inputs):
        seen.append((graph_module, list(example_inputs)))
        return graph_module.forward

    compiled = framelift.compile(lambda x, y: torch.sin(x) @ y, backend=backend)
    x, y = torch.rand(2, 3), torch.rand(3, 2)
    assert torch.equal(compiled(x, y), torch.sin(x) @ y)
    ((graph_module, examples),) = seen
    assert [n.op.split("_")[0] for n in graph_module.graph.nodes] == [
        "placeholder",
        "placeholder",
        "call",
        "call",
        "output",
    ]
    assert [tuple(e.shape) for e in examples] == [(2, 3), (3, 2)]


# -- installation ------------------------------------------------------------------------------------------------------


def build(tmp_path: Path, prepare: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Start setup.py's build, expected to stop early; `prepare` is Python run before it."""
    program = (
        f"import sys, runpy; sys.argv = ['setup.py', '-q', 'build_ext', '--build-lib', {str(tmp_path)!r}, "
        f"'--build-temp', {str(tmp_path)!r}]; "
        f"{prepare}\nrunpy.run_path('setup.py', run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=120,
    )


@pytest.mark.parametrize(
    ("prepare", "environment", "sentence"),
    [
        (
            "",
            {"CXX": "/nonexistent/g++"},
            "framelift: no C++ compiler found (/nonexistent/g++); install g++ or set CXX to one.",
        ),
        (
            "import os, pathlib, tempfile; old = os.environ['FRAMELIFT_TORCHES'] = tempfile.mkdtemp(); "
            "pathlib.Path(old, 'version.py').write_text(\"__version__ = '2.5.1+cpu'\\n\")",
            {},
            "framelift: torch 2.5.1+cpu is too old; framelift needs torch 2.11 or newer.",
        ),
        ("sys.modules['torch'] = None", {}, "framelift: PyTorch is not installed in this environment;"),
        (
            "import setuptools, collections; V = collections.namedtuple('V', 'major minor micro releaselevel serial'); "
            "sys.version_info = V(3, 15, 0, 'final', 0)",
            {},
            "framelift: cpython 3.15 is not supported yet: it needs a dialect in src/framelift/bytecode/dialects and "
            "its frames in csrc/frame_access.h, see docs/adding/python_version.md; "
            "use CPython 3.11, 3.12, 3.13 or 3.14.",
        ),
        (
            "import setuptools.command.build_ext; sys.abiflags = 't'",
            {},
            "framelift: free-threaded builds of CPython are not supported: guards and the core's tables would need "
            "locks, see docs/design.md; use a build with the GIL.",
        ),
        (
            "import platform; platform.system = lambda: 'Darwin'",
            {},
            "framelift: Darwin on x86_64 is not supported; framelift needs Linux on x86-64.",
        ),
    ],
    ids=["no compiler", "old torch", "no torch", "new python", "free-threaded", "macOS"],
)
def test_a_build_that_cannot_work_says_why(
    tmp_path: Path, prepare: str, environment: dict[str, str], sentence: str
) -> None:
    done = build(tmp_path, prepare, **environment)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("framelift:")]
    assert len(lines) == 1 and lines[0].startswith(sentence), done.stderr[-2000:]
    assert "Traceback" not in done.stderr


def test_disable_turns_captured_code_off_and_on_again() -> None:
    compiled = framelift.compile(double, backend="eager")
    compiled(X)
    hits = compiled.entries[0].hits
    with framelift.config.patch(disable=True):
        assert torch.equal(compiled(X), double(X)) and compiled.entries[0].hits == hits
    compiled(X)
    assert compiled.entries[0].hits == hits + 1
