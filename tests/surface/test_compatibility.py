"""Nothing of torch.compile's surface is ignored in silence: each name of torch's own lists has a row, and each row that
says "works" is shown by a test.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch._dynamo import config, decorators
from torch._dynamo.testing import CompileCounter

import framelift
from framelift.surface import compatibility
from framelift.surface.compatibility import WITHOUT_EFFECT
from framelift.vocabulary.options import OPTIONS

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS.parent / "tools"))
from compatibility_rows import Verdict, environment_rows, function_rows, option_rows  # noqa: E402

TORCH = Path(torch.__file__).parent
X = torch.ones(3)


def _read_from_the_environment() -> set[str]:
    """The variables that torch's compiler reads, by its source."""
    files = [*(TORCH / "_dynamo").glob("*.py"), *(TORCH / "_dynamo" / "backends").glob("*.py")]
    files += [*(TORCH / "compiler").glob("*.py"), *(TORCH / "_logging").glob("*.py")]
    files += [TORCH / "fx" / "experimental" / "_config.py"]
    calls = re.compile(r"(?:environ\.get|getenv|get_tristate_env|environ\[)\(?\s*\"([A-Z0-9_]+)\"")
    named = re.compile(r"env_name_(?:default|force)\s*=\s*(\[[^\]]*\]|\"[A-Z0-9_]+\")")
    found: set[str] = set()
    for file in files:
        text = file.read_text()
        found.update(calls.findall(text))
        for part in named.findall(text):
            found.update(re.findall(r"\"([A-Z0-9_]+)\"", part))
        found.update(re.findall(r"^[A-Z_]*ENV_VAR = \"([A-Z0-9_]+)\"", text, re.M))
    return found


def test_every_option_has_a_row():
    assert not [name for name in config._config if name not in option_rows()]


def test_every_variable_has_a_row():
    found = _read_from_the_environment()
    assert len(found) > 40  # the patterns still find them
    assert not sorted(found - environment_rows().keys())


def test_every_function_has_a_row():
    rows = function_rows()
    names = {f"torch.compiler.{name}" for name in torch.compiler.__all__}
    names |= {f"torch._dynamo.{name}" for name in torch._dynamo.__all__}
    names |= {
        f"torch._dynamo.{name}"
        for name, value in vars(decorators).items()
        if isinstance(value, types.FunctionType) and value.__module__ == decorators.__name__ and name[0] != "_"
    }
    assert not sorted(names - rows.keys())


def test_what_works_is_shown():
    def exists(test: str) -> bool:
        file, _, name = test.partition("::")
        return f"def {name}(" in (TESTS / file).read_text()

    rows = [*option_rows().values(), *environment_rows().values(), *function_rows().values()]
    assert not [row.name for row in rows if row.test and not exists(row.test)]
    own = {name for name in OPTIONS if name in config._config}
    assert not [
        name for name, row in option_rows().items() if row.verdict is Verdict.WORKS and name in own and not row.test
    ]
    others = [*environment_rows().values(), *function_rows().values()]
    assert not [row.name for row in others if row.verdict is Verdict.WORKS and not row.test]


def test_what_works_is_read():
    """An option that no code reads cannot work."""
    text = "\n".join(file.read_text() for file in Path(framelift.__file__).parent.rglob("*.py"))
    works = [name for name, row in option_rows().items() if row.verdict is Verdict.WORKS and not OPTIONS[name].alias]
    unread = [name for name in works if f"config.{name}" not in text and f'WATCHERS["{name}"]' not in text]
    assert not unread


def test_options_without_effect_warn():
    for name, row in option_rows().items():
        if row.verdict is not Verdict.WARNS or name not in config._config:
            continue
        framelift.config._warned.discard(name)
        with pytest.warns(UserWarning, match=f"{name} = .* has no effect"):
            framelift.config.warn_without_effect(name, "another value", OPTIONS[name].default)
    framelift.config._warned.clear()


def test_variables_without_effect_warn(monkeypatch):
    for name in WITHOUT_EFFECT:
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(compatibility, "_warned", set())
    with pytest.warns(UserWarning) as found:
        compatibility.warn_environment()
    assert len(found) == len(WITHOUT_EFFECT)
    compatibility.warn_environment()


def test_what_is_refused_says_why():
    refused = [row for row in function_rows().values() if row.verdict is Verdict.REFUSED]
    with framelift.installed():
        for row in refused:
            module, _, name = row.name.rpartition(".")
            with pytest.raises(NotImplementedError, match=re.escape(row.note)):
                getattr(sys.modules[module], name)(None)
    assert len(refused) == 1


def test_the_page_is_current(monkeypatch):
    import importlib.util

    monkeypatch.syspath_prepend(str(TESTS.parent / "tools"))
    spec = importlib.util.spec_from_file_location("compatibility_page", TESTS.parent / "tools" / "compatibility.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text() == tool.page(), "run python tools/compatibility.py"


# ---- what rows say that no other test shows ----


def test_variables_set_options():
    variables = {option.torch_variable: name for name, option in OPTIONS.items() if option.torch_variable}
    shown = [name for name, row in environment_rows().items() if row.test.endswith("test_variables_set_options")]
    assert set(shown) <= variables.keys()
    values = {name: "0:eager" if "OVERRIDE" in name else "0" if "AUTOMATIC" in name else "1" for name in shown}
    program = "import framelift; print([framelift.config.get_config_copy()[n] for n in %r])" % [
        variables[name] for name in shown
    ]
    rest = {name: value for name, value in os.environ.items() if not name.startswith("FRAMELIFT_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**rest, **values}, capture_output=True, text=True, check=True
    )
    found = dict(zip(shown, ast.literal_eval(done.stdout)))
    wanted = {name: value if ":" in value else value == "1" for name, value in values.items()}
    assert found == wanted


def test_one_function_alone(monkeypatch):
    from framelift.capture import frames

    def wanted(x):
        return x + 1

    def other(x):
        return x + 2

    monkeypatch.setattr(frames, "_ONLY", "wanted")
    counter = CompileCounter()
    for f in (wanted, other):
        framelift.compile(f, backend=counter)(X)
    assert counter.frame_count == 1


def test_functions_that_are_not_redirected():
    def f(x):
        return x + torch._dynamo.is_compiling() + 2 * torch.compiler.is_exporting()

    assert torch.equal(framelift.compile(f, backend="eager", fullgraph=True)(X), X + 1)


def _frames(f, calls, **options):
    counter = CompileCounter()
    with framelift.config.patch(**options):
        compiled = framelift.compile(f, backend=counter)
        for args in calls:
            compiled(*args)
    return counter.frame_count


def test_what_is_symbolic():
    sizes, numbers = [(torch.ones(n),) for n in (3, 4, 5)], [(X, n) for n in (3, 4, 5)]
    floats = [(X, n) for n in (0.5, 1.5, 2.5)]
    assert (_frames(lambda x: x + 1, sizes), _frames(lambda x: x + 1, sizes, automatic_dynamic_shapes=False)) == (2, 3)
    assert _frames(lambda x: x + 1, sizes, assume_static_by_default=False) == 1
    assert (_frames(lambda x, n: x * n, numbers), _frames(lambda x, n: x * n, numbers, specialize_int=True)) == (2, 3)
    assert (_frames(lambda x, n: x * n, floats), _frames(lambda x, n: x * n, floats, specialize_float=True)) == (2, 3)


def test_marked_sizes_may_become_constants():
    def f(x):
        return x + 1 if x.shape[0] == 4 else x

    y = torch.ones(4)
    framelift.mark_dynamic(y, 0)
    with pytest.raises(framelift.exc.ConstraintViolation):
        framelift.compile(f, backend="eager")(y)
    with framelift.config.patch(allow_ignore_mark_dynamic=True):
        assert torch.equal(framelift.compile(f, backend="eager")(y), y + 1)


def test_recurrent_networks():
    seen = []

    def backend(graph_module, inputs):
        seen.append([str(node.target) for node in graph_module.graph.nodes])
        return graph_module.forward

    backend.unrolls_recurrent_networks = True
    lstm, x = torch.nn.LSTM(2, 2), torch.ones(40, 1, 2)
    framelift.compile(lambda x: lstm(x)[0] + 1, backend=backend)(x)
    before, seen[:] = list(seen), []
    with framelift.config.patch(allow_rnn=True):
        framelift.compile(lambda x: lstm(x)[0] + 1, backend=backend)(x)
    assert any("lstm" in target for target in seen[0]) and not any("lstm" in target for one in before for target in one)


def test_variants_of_one_frame_in_all():
    calls = [(X, text) for text in "abcde"]
    with pytest.warns(UserWarning):
        assert _frames(lambda x, s: x + len(s), calls, accumulated_recompile_limit=2) == 2


def test_under_jit_tracing():
    f = framelift.compile(lambda x: x + 1, backend="eager")
    with pytest.raises(RuntimeError):
        torch.jit.trace(f, (X,))
    with framelift.config.patch(error_on_nested_jit_trace=False):
        assert torch.equal(torch.jit.trace(lambda x: f(x) * 2, (X,))(X), (X + 1) * 2)


@pytest.mark.parametrize("option", ["cprofile", "dynamo_profiler"])
def test_profiles(option, capsys):
    with framelift.config.patch({option: True}):
        framelift.compile(lambda x: x + 1, backend="eager")(X)
    assert "profile of rehearsing" in capsys.readouterr().err
