"""The first hour of somebody new: install framelift, run the first example, the documentation and the examples.

python tools/newcomer.py [--wheel FILE] [--only install doctor programs examples site]

A wheel is built (or given), and installed into a new environment that has torch, but no C++ compiler on its path.
Then everything runs from there, in an empty folder: `framelift doctor`, the programs of the README and of docs/, those
in examples/; and the site is built, with every link checked.
Each step prints what it did.  The exit status is 1 where one failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

import wheels

ROOT = Path(__file__).resolve().parents[1]
WHEELS, HOME = ROOT / "build" / "wheel", ROOT / "build" / "newcomer"
_PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
#: what the examples are called with where there is no compiler
_EXAMPLES = {
    "train_gpt.py": ["--steps", "20", "--backend", "eager"],
    "generate.py": ["--tokens", "8", "--backend", "eager"],
    "serve.py": ["--backend", "eager"],
    "export_model.py": [],
    "two_ranks.py": ["--backend", "eager"],
    "fine_tune_timm.py": ["--backend", "eager", "--steps", "8"],
}


class Failed(Exception):
    """A step went wrong; the text says how."""


def run(command: list[str], **options: object) -> str:
    """Run a command; its output, or an error with the end of it."""
    done = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def build_wheel() -> Path:
    """A wheel for this interpreter and its torch."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    found = importlib.util.find_spec("torch")
    assert found is not None and found.origin is not None, "this needs torch"
    return wheels.build(sys.executable, [Path(found.origin).parent], WHEELS)


def environment() -> dict[str, str]:
    """Without the repository, and without a compiler."""
    tools = HOME / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    for name in ("uname", "ldconfig", "env", "sh"):
        if (found := shutil.which(name)) and not (tools / name).exists():
            (tools / name).symlink_to(found)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CXX", "CC")}
    return kept | {"PATH": f"{HOME / 'env' / 'bin'}:{tools}", "OMP_NUM_THREADS": "1"}


def python() -> str:
    return str(HOME / "env" / "bin" / "python")


def install(wheel: Path) -> str:
    """A new environment with the torch of this one, and the wheel."""
    shutil.rmtree(HOME, ignore_errors=True)
    venv.create(HOME / "env", with_pip=True)
    packages = run([python(), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]).strip()
    others = [path for path in sys.path if path.endswith("-packages")]
    Path(packages, "torch_of_the_builder.pth").write_text("\n".join(others) + "\n")
    run([python(), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)], env=environment())
    where = run([python(), "-c", "import framelift; print(framelift.__file__)"], env=environment(), cwd=HOME).strip()
    if not where.startswith(packages):
        raise Failed(f"the environment imports framelift from {where}")
    run([python(), "-m", "framelift", "explain", "tensor-bool"], env=environment(), cwd=HOME)
    return f"{wheel.name} in a new environment without a compiler"


def doctor() -> str:
    """`framelift doctor` finds nothing wrong."""
    said = run([str(HOME / "env" / "bin" / "framelift"), "doctor"], env=environment(), cwd=HOME)
    return said.strip().rpartition("\n")[2]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def programs() -> str:
    """The programs of each page, one after the other in one process, with the eager backend in Inductor's place."""
    count = 0
    for page in pages():
        found = _PROGRAM.findall(page.read_text(encoding="utf-8"))
        if not found or "adding" in page.parts or "reasons" in page.parts or "internals" in page.parts:
            continue
        with tempfile.TemporaryDirectory(dir=HOME) as folder:
            program = Path(folder, "page.py")
            program.write_text("\n".join(found).replace('backend="inductor"', 'backend="eager"'))
            run([python(), "-c", _RUNNER, str(program)], env=environment(), cwd=folder)
        count += len(found)
    return f"{count} programs of the README and the documentation"


_RUNNER = """
import runpy, sys, framelift, torch
framelift.set_default_backend("eager")
runpy.run_path(sys.argv[1], init_globals={"torch": torch, "framelift": framelift, "model": torch.nn.Linear(2, 2),
                                          "my_backend": lambda graph, inputs: graph.forward}, run_name="__main__")
"""


def examples() -> str:
    """Each example, as a user would run it."""
    for name, arguments in _EXAMPLES.items():
        run([python(), str(ROOT / "examples" / name), *arguments], env=environment(), cwd=HOME)
    return f"{len(_EXAMPLES)} examples"


def site() -> str:
    """The site, warnings are errors; and every relative link of every page."""
    missing = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages()
        for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
        if "://" not in link and not link.startswith("reference/") and not (page.parent / link).exists()
    ]
    missing = [row for row in missing if "reference/" not in row]  # those pages are made for the site
    if missing:
        raise Failed("links that lead nowhere:\n" + "\n".join(missing))
    run([python(), str(ROOT / "tools" / "docs.py")], env=environment())  # of the names that were installed
    return "the site, and every link"


STEPS: dict[str, Callable[[], str]] = {"doctor": doctor, "programs": programs, "examples": examples, "site": site}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="one that was built before")
    parser.add_argument("--only", nargs="*", choices=["install", *STEPS], default=["install", *STEPS])
    options = parser.parse_args()
    steps: dict[str, Callable[[], str]] = {"install": lambda: install(options.wheel or build_wheel()), **STEPS}
    failed = 0
    for name in options.only:
        begin = time.monotonic()
        try:
            said = steps[name]()
        except Failed as error:
            failed += 1
            said = f"FAILED: {error}"
        print(f"{name:9} {time.monotonic() - begin:6.1f} s  {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
