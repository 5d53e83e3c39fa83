"""What is said of the process's surroundings: environment variables, platforms, terminals, compilers; and of modes."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import framelift
from framelift import exc
from framelift.vocabulary.environment import VARIABLES
from framelift.vocabulary.options import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "framelift"


def said(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new process."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        cwd=ROOT / "src",
        timeout=300,
        check=False,
    )


# ---- environment variables


def test_variables_that_are_not_understood_are_named_once() -> None:
    program = "import framelift\nc = framelift.config\nprint(c.recompile_limit, c.strict, c.cache, c.repeated_layers)"
    done = said(
        program,
        FRAMELIFT_RECOMPILE_LIMIT="many",
        FRAMELIFT_STRICT="perhaps",
        FRAMELIFT_CACHE="sometimes",
        FRAMELIFT_REPEATED_LAYERS="off",
        FRAMELIFT_CACHDIR="/tmp",
    )
    assert done.stdout == "8 False auto off\n", done.stderr
    lines = [line for line in done.stderr.splitlines() if "UserWarning" in line]
    assert len(lines) == 4
    for words in (
        "FRAMELIFT_RECOMPILE_LIMIT is 'many', which is not used: it takes int",
        "FRAMELIFT_STRICT is 'perhaps', which is not used: it takes 0 or 1",
        "FRAMELIFT_CACHE is 'sometimes', which is not used: it takes 'auto' or 0 or 1",
        "FRAMELIFT_CACHDIR is set, and nothing reads it; did you mean FRAMELIFT_CACHE_DIR?",
    ):
        assert sum(words in line for line in lines) == 1, (words, lines)


@pytest.mark.parametrize("text, value", [("1", True), ("on", True), ("0", False), ("", False), ("auto", "auto")])
def test_variables_that_are_understood(text: str, value: object) -> None:
    assert OPTIONS["cache"].from_text(text, lenient=False) == value


def test_a_variable_of_torchs_that_is_any_text_is_a_yes() -> None:
    assert OPTIONS["verbose"].from_text("please", lenient=True) is True
    with pytest.raises(ValueError):
        OPTIONS["verbose"].from_text("please", lenient=False)


def test_every_variable_in_the_source_is_in_the_table() -> None:
    """And so on the page of all environment variables, which is made of it (tools/docs.py)."""
    files = [*SOURCE.rglob("*.py"), ROOT / "setup.py"]
    named = {name for path in files for name in re.findall(r"FRAMELIFT_[A-Z][A-Z_]*[A-Z]", path.read_text())}
    known = {*VARIABLES, *(f"FRAMELIFT_{name.upper()}" for name in OPTIONS)}
    assert named - {"FRAMELIFT_NAME"} <= known
    assert set(VARIABLES) <= named


def test_choices_of_options_are_checked() -> None:
    with pytest.raises(exc.WrongType, match="repeated_layers takes 'auto' or 'always' or 'off', not 'of'"):
        framelift.config.repeated_layers = "of"
    with pytest.raises(TypeError, match="recompile_limit takes int, not str"):
        framelift.config.recompile_limit = "8"


# ---- modes


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_modes_are_checked_for_every_backend(backend: str) -> None:
    with pytest.raises(exc.IncorrectUsage, match="max-autotun"):
        framelift.compile(torch.sin, backend=backend, mode="max-autotun")
    with contextlib.nullcontext() if backend == "inductor" else pytest.warns(UserWarning, match="has no use for mode="):
        framelift.compile(torch.sin, backend=backend, mode="max-autotune")


def test_a_backend_of_the_program_that_takes_no_mode() -> None:
    def plain(graph, inputs):
        return graph.forward

    def moded(graph, inputs, *, mode=None):
        return graph.forward

    with pytest.raises(exc.IncorrectUsage, match="the backend plain takes no mode: it has no parameter of that name"):
        framelift.compile(torch.sin, backend=plain, mode="fast")
    with pytest.raises(exc.IncorrectUsage, match="the backend moded takes no options"):
        framelift.compile(torch.sin, backend=moded, options={"a": 1})
    assert torch.equal(framelift.compile(torch.sin, backend=moded, mode="fast")(torch.ones(2)), torch.ones(2).sin())


# ---- platforms


def test_a_platform_that_is_not_supported_is_named_at_import() -> None:
    program = (
        "import platform, torch\nplatform.system = lambda: 'Darwin'\nplatform.machine = lambda: 'arm64'\n"
        "import framelift\nprint(framelift.is_supported(), framelift.compile(torch.sin) is torch.sin)"
    )
    done = said(program)
    assert done.stdout == "False True\n"
    assert "Darwin on arm64 is not supported; framelift needs Linux on x86-64" in done.stderr
    assert "torch.compile is as torch has it" in done.stderr


# ---- terminals and compilers


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"LANG": "C", "PYTHONUTF8": "0"}])
def test_terminals_that_know_ascii_only(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "größe.py"
    path.write_text(
        "import torch, framelift\n"
        "@framelift.compile(backend='eager')\n"
        "def größe(x, length_of_a_name):\n"
        "    if x.sum() > 0:  # größer\n"
        "        return x * length_of_a_name\n"
        "    return x\n"
        "größe(torch.ones(3), 1), größe(torch.ones(3), 2)\n"
        "print(größe)\nprint(größe.report())\n",
        encoding="utf-8",
    )
    programs = [[str(path)], ["-m", "framelift", "report", "--text", "-o", "-", str(path)]]
    programs += [["-m", "framelift", "explain"], ["-m", "framelift", "explain", "tensor-bool"]]
    for arguments in programs:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            env={**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "FRAMELIFT_LOGS": "all", **environment},
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode("ascii", "replace")[-2000:]
        assert done.stdout.decode("ascii")
        done.stderr.decode("ascii")


def test_inductor_without_a_compiler_says_so(tmp_path: Path) -> None:
    program = (
        "import torch, framelift\n"
        "f = framelift.compile(lambda x: x.sin() + 1)\n"
        "try: f(torch.ones(64))\n"
        "except framelift.exc.BackendCompilerFailed as error: print(str(error).splitlines()[-1])\n"
    )
    (tmp_path / "bin").mkdir()
    done = said(
        program,
        PATH=str(tmp_path / "bin"),
        CXX="/nonexistent/g++",
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"),
        FRAMELIFT_CACHE_DIR=str(tmp_path / "captures"),
    )
    assert (
        "CXX names /nonexistent/g++, which is not there: Inductor needs one" in done.stdout
        and 'backend="aot_eager"' in done.stdout
    ), (done.stdout, done.stderr[-3000:])


# ---- errors


#: packages whose code imitates Python and torch for captured code: there the program's own errors are raised
_OF_THE_PROGRAM = {
    "autograd",
    "boundary",
    "bytecode",
    "calls",
    "exits",
    "graph",
    "guards",
    "higher_order",
    "overriding",
    "recording",
    "rehearsal",
    "substitutes",
}
_BUILT_IN = {"AssertionError", "NotImplementedError", "OSError", "RuntimeError", "TypeError", "ValueError"}


def _catches(function: ast.AST, line: int, name: str) -> bool:
    """Whether a `try` of the function around this line catches an error of this class."""
    return any(
        isinstance(node, ast.Try)
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
        and any(re.search(rf"\b({name}|Exception)\b", ast.unparse(one.type)) for one in node.handlers if one.type)
        for node in ast.walk(function)
    )


def test_every_error_of_framelifts_own_is_a_framelift_error() -> None:
    """docs/howto/errors.md says so.  A line that raises another class says whose error it is."""
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in _OF_THE_PROGRAM:
            continue
        text = path.read_text()
        lines, tree = text.splitlines(), ast.parse(text)
        for node in ast.walk(tree):
            raised = node.exc if isinstance(node, ast.Raise) else None
            name = ast.unparse(raised.func if isinstance(raised, ast.Call) else raised) if raised is not None else ""
            if name not in _BUILT_IN or _catches(tree, node.lineno, name):
                continue
            if not re.search(r"# (caught|Python's|torch's|pytest's)", lines[node.lineno - 1]):
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno} {lines[node.lineno - 1].strip()}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "call, python",
    [
        (lambda: framelift.compile(3), TypeError),
        (lambda: framelift.compile(torch.sin, dynamic="yes"), TypeError),
        (lambda: framelift.compile(torch.sin, background="soon"), ValueError),
        (lambda: framelift.compile(torch.sin, mode="default", options={}), RuntimeError),
        (lambda: framelift.disable(3), AssertionError),
        (lambda: framelift.mark_dynamic(3, 0), TypeError),
        (lambda: framelift.set_stance("never"), RuntimeError),
        (lambda: framelift.save_repro(framelift.compile(torch.sin), "x.py"), ValueError),
        (lambda: framelift.save_package(3, "x"), TypeError),
        (lambda: framelift.wait(3), TypeError),
        (lambda: framelift.register_backend(3), AssertionError),
        (lambda: setattr(framelift.config, "nonsense", 1), AttributeError),
        (lambda: setattr(framelift.config, "cache_size", "big"), TypeError),
    ],
)
def test_wrong_arguments_are_both_ours_and_pythons(call, python: type[BaseException]) -> None:
    """A program that catches what torch.compile raises for such arguments catches it here, too."""
    with pytest.raises(exc.FrameliftError) as caught:
        call()
    assert isinstance(caught.value, python)
