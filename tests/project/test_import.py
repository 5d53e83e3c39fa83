"""What importing framelift loads: next to nothing.  Its parts come with the first use of a public name: what calls
need, or all.
"""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.surface import native_core

#: all that `import framelift` may load on top of torch
LOADED = {
    "framelift",
    "framelift._core",
    "framelift.capture",  # its docstring: the name is the function's
    "framelift.config",
    "framelift.exc",
    "framelift.surface",
    "framelift.surface.native_core",
    "framelift.surface.without_core",
    "framelift.vocabulary",
    "framelift.vocabulary.options",
    "framelift.vocabulary.options_without_effect",
    "framelift.vocabulary.scopes",
    "framelift.vocabulary.version",
    "framelift.vocabulary.environment",
    "framelift.vocabulary.log",
    "framelift.vocabulary.own_code",
}


def in_a_new_process(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


#: in one process, for each costs seconds: what is loaded by the import, by a look at options, and by a call
FIRST_STEPS = """
import json, sys, torch

def loaded():
    new = sorted(set(sys.modules) - before)
    before.update(new)
    return new

before = set(sys.modules)
import framelift
found = {"import": loaded()}
framelift.config.recompile_limit = 4
framelift.exc.Unsupported
framelift.__version__, hasattr(framelift, "__wrapped__"), dir(framelift)
found["options"] = loaded()
framelift.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
found["call"] = loaded()
try:
    framelift.nonsense
except AttributeError as error:
    found["nonsense"] = str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def first_steps() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(in_a_new_process(FIRST_STEPS))
    return found


def test_importing_loads_no_module_of_torch(first_steps: dict[str, Any]) -> None:
    assert "framelift" in first_steps["import"] and set(first_steps["import"]) <= LOADED


def test_options_and_exceptions_load_nothing(first_steps: dict[str, Any]) -> None:
    assert first_steps["options"] == []


def test_a_name_that_does_not_exist(first_steps: dict[str, Any]) -> None:
    assert first_steps["nonsense"] == "module 'framelift' has no attribute 'nonsense'"


def test_calls_do_not_load_what_they_do_not_need(first_steps: dict[str, Any]) -> None:
    late = "framelift.export", "framelift.testing", "framelift.packages.aot", "framelift.surface.drop_in"
    everything = [name for step in ("import", "options", "call") for name in first_steps[step]]
    assert "framelift.capture.driver" in everything and not [name for name in everything if name.startswith(late)]


@pytest.mark.parametrize("first", ["framelift.report", "import framelift.export", "from framelift import *"])
def test_the_first_name_does_not_matter(first: str) -> None:
    program = (
        f"import torch, framelift\n{first}\nframelift.compile\n"
        "f = framelift.compile(lambda x: x + 1, backend='eager')\nf(torch.ones(1))\n"
        "print(f.report().graphs, all(hasattr(framelift, name) for name in framelift.__all__))"
    )
    assert in_a_new_process(program) == "1 True"


def test_type_checkers_see_the_same_names() -> None:
    stub = ast.parse((Path(framelift.__file__).with_suffix(".pyi")).read_text())
    named = {
        alias.asname: f"{node.module or ''}.{alias.name}".strip(".")
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    loaded = {name: f"{home}.{name}" for home, names in framelift._HOMES.items() for name in names.split()}
    assert named == {**loaded, **framelift._MODULES, "config": "config", "exc": "exc"}
    assert set(framelift.__all__) <= set(named)


def test_a_capture_does_not_import_dynamo() -> None:
    """Kernels of torch in Python import it when they are called; once it is there they are what torch makes of them."""
    program = (
        "import sys, torch, framelift\n"
        "from framelift.graph.metadata.without_dynamo import _UntilDynamo, _wrappers_in\n"
        "def program(x):\n    return torch.nn.functional.gelu(x.sin() * 2).softmax(-1).relu() + 1\n"
        "f = framelift.compile(program, backend='eager')\n"
        "f(torch.ones(3))\n"
        "wrapped = _wrappers_in([torch._refs.nn.functional.relu])[0].__closure__[0].cell_contents\n"
        "def kind(): return type(getattr(wrapped, '__dynamo_disable')).__name__\n"
        "print('torch._dynamo' in sys.modules, kind())\n"
        "import torch._dynamo\n"
        "print(torch.empty(2, device='meta').relu().shape, f(torch.ones(2, 3)).shape, kind())\n"
    )
    assert in_a_new_process(program).split("\n") == [
        "False _UntilDynamo",
        "torch.Size([2]) torch.Size([2, 3]) function",
    ]


def test_only_public_names_are_shown() -> None:
    import framelift

    assert framelift.compile and {name for name in dir(framelift) if not name.startswith("_")} == {*framelift.__all__}


@pytest.mark.parametrize(
    "version",
    ["2.8.0", *(pytest.param(version, marks=pytest.mark.slow) for version in ("2.99.1+cpu", "99.0.0a0+git1234"))],
)
def test_without_a_core_for_this_torch_programs_run_as_they_are(version: str) -> None:
    """One sentence says what to do; nothing is compiled, and nothing else of framelift is used by mistake."""
    program = (
        "import warnings, torch\n"
        f"torch.__version__ = torch.torch_version.TorchVersion({version!r})\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import framelift\n"
        "print(len(caught), caught[0].message)\n"
        "theirs = torch.compile\n"
        "def f(x): return x + 1\n"
        "framelift.install()\n"
        "print(framelift.compile(f) is f, framelift.compile(fullgraph=True)(f) is f, framelift.is_supported())\n"
        "print(torch.compile is theirs, framelift.is_installed())\n"
        "try: framelift.explain\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    said, *answers = in_a_new_process(program).split("\n")
    assert said.startswith(f"1 framelift has no native core for torch {version} with Python") and "make build" in said
    assert answers[:2] == ["True True False", "True False"]
    assert answers[2].startswith("UnsupportedPlatform framelift.explain cannot be used: framelift has no native core")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("sys.version_info = V(3, 15, 0, 'final', 0)", "cpython 3.15 is not supported yet: it needs a dialect in src/"),
        ("sys.abiflags = 't'", "free-threaded builds of CPython are not supported: guards and the core's tables would"),
    ],
)
def test_a_python_that_is_not_supported_is_refused_in_one_sentence(change: str, sentence: str) -> None:
    program = (
        "import collections, sys, warnings, torch\n"
        "V = collections.namedtuple('V', 'major minor micro releaselevel serial')\n"
        f"{change}\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import framelift\n"
        "print(len(caught), caught[0].message)\n"
        "print(framelift.compile(print) is print, framelift.is_supported())\n"
    )
    said, answers = in_a_new_process(program).split("\n")
    assert said.startswith(f"1 framelift does nothing here: {sentence}") and answers == "True False"


def test_the_core_of_another_torch_is_not_loaded(tmp_path) -> None:
    program = (
        "import pathlib, shutil, torch\n"
        "from framelift.surface import native_core\n"
        f"native_core.PACKAGE = pathlib.Path({str(tmp_path)!r})\n"
        "import framelift\n"
        "moved = native_core.core_of('99.0')\n"
        "moved.parent.mkdir(parents=True)\n"
        "shutil.copy(framelift._core.__file__, moved)\n"
        "try: native_core.load('99.0')\n"
        "except ImportError as error: print(error)\n"
    )
    assert f"was built for torch {torch.__version__.partition('+')[0]}, and torch is 99.0" in in_a_new_process(program)


def test_a_core_that_reads_structs_wrongly_is_not_loaded() -> None:
    assert len(framelift._core.LAYOUTS) > 10 and all(holds for *_, holds in framelift._core.LAYOUTS)
    core = types.SimpleNamespace(
        __file__="core.so",
        TORCH_VERSION=torch.__version__,
        LAYOUTS=(("frames", "frame_access.h", False), ("super objects", "frames.h", True)),
    )
    with pytest.raises(
        ImportError, match=rf"core.so does not know how Python .* lays out frames \(csrc/frame_access.h\)$"
    ):
        native_core.check(core, torch.__version__)


#: in place of a C++ compiler: it writes a line for each call, and links by copying a core
COMPILER = """
import shutil, sys
command = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write("compile\\n" if "-c" in command else "link\\n")
shutil.copy(__file__ if "-c" in command else {core!r}, command[command.index("-o") + 1])
sys.exit({status})
"""


def installed_without_a_core(tmp_path: Path, program: str, status: int = 0, **environment: str) -> tuple[str, str, str]:
    """What a program prints where an installation carries csrc and no core: output, errors, and the compiler's log."""
    package = Path(framelift.__file__).parent
    if not (tmp_path / "framelift").exists():
        shutil.copytree(package, tmp_path / "framelift", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        shutil.copytree(package.parents[1] / "csrc", tmp_path / "framelift" / "csrc")
    log, compiler = tmp_path / "log", tmp_path / "compiler.py"
    log.write_text("")
    compiler.write_text(COMPILER.format(log=str(log), core=framelift._core.__file__, status=status))
    settings = {"PYTHONPATH": str(tmp_path), "FRAMELIFT_CACHE_DIR": str(tmp_path / "cache")}
    settings |= {"CXX": shlex.join([sys.executable, str(compiler)]), **environment}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr.strip(), log.read_text()


USE = (
    "import torch, framelift\nf = framelift.compile(lambda x: x + 1, backend='eager')\n"
    "f(torch.ones(1))\nprint(framelift.stats()['graphs'] if framelift.is_supported() else 'not compiled')\n"
)


def test_a_core_that_an_installation_lacks_is_built_once(tmp_path: Path) -> None:
    said, errors, log = installed_without_a_core(tmp_path, USE)
    assert said == "1" and log.count("link") == 1 and log.startswith("compile")
    assert errors.startswith(f"framelift has no native core for torch {torch.__version__} with Python")
    assert errors.endswith("it is built now, once, in a minute or two") and "\n" not in errors
    assert installed_without_a_core(tmp_path, USE) == ("1", "", "")
    (kept,) = (tmp_path / "cache" / "cores").glob("*/_core*")
    kept.chmod(0o666)
    said, errors, _ = installed_without_a_core(tmp_path, USE)
    assert said == "not compiled" and f"others may write cores/{kept.parent.name}" in errors


@pytest.mark.slow
def test_processes_that_start_together_build_one_core(tmp_path: Path) -> None:
    several = (
        "import subprocess, sys\n"
        f"running = [subprocess.Popen([sys.executable, '-c', {USE!r}]) for _ in range(3)]\n"
        "assert not any(one.wait() for one in running)\n"
    )
    said, _, log = installed_without_a_core(tmp_path, several)
    assert "".join(said.split()) == "111" and log.count("link") == 1


@pytest.mark.parametrize(
    ("status", "environment", "sentence"),
    [
        (0, {"FRAMELIFT_BUILD_CORE": "0"}, "FRAMELIFT_BUILD_CORE is 0"),
        (0, {"CXX": "/nonexistent/g++"}, "could not be built: no C++ compiler found (/nonexistent/g++)"),
        (3, {}, "ended with 3"),
        (0, {"FRAMELIFT_CACHE_DIR": "/proc/nowhere"}, "could not be built: [Errno"),
    ],
)
def test_where_no_core_can_be_built_nothing_is_compiled(
    tmp_path: Path, status: int, environment: dict[str, str], sentence: str
) -> None:
    said, errors, _ = installed_without_a_core(tmp_path, USE, status, **environment)
    assert said == "not compiled" and sentence in errors and "Traceback" not in errors
    assert ("it is built now" in errors) == bool(status)  # said where a compiler is started


def test_another_build_of_the_same_torch_is_used() -> None:
    release = torch.__version__.partition("+")[0]
    program = f"import torch\ntorch.__version__ = torch.torch_version.TorchVersion('{release}+cu999')\nimport framelift"
    assert in_a_new_process(program) == ""


def test_the_core_has_all_that_it_is_to_be_given() -> None:
    import framelift.packages.methods
    import framelift.report  # noqa: F401
    from framelift import _core

    framelift.compile(torch.sin, backend="eager")(torch.ones(1))
    missing = {name for name, there in _core.connections().items() if not there}
    assert missing <= {"redirect", "entry_chooser"}, missing  # these are for a stance, and for ranks that agree
    with pytest.raises(TypeError, match="no connection named 'captured_frame'"):
        _core.connect(captured_frame=print)
