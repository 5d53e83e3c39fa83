"""`framelift doctor`: does framelift work on this machine, and what does it go without.

The text is made to be pasted in a bug report.
"""

from __future__ import annotations

import argparse
import getpass
import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch

from .. import _core, config
from ..cache.store import folder
from ..torch_ports.port import AREAS, ports
from ..vocabulary.environment import unknown_variables
from ..vocabulary.log import printable
from ..vocabulary.version import __version__
from . import cli, drop_in, self_test
from .core_build import BuildFailed, compiler


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `status` is "ok", "note" (works, and the user may want to know) or "wrong" (exit status 1)."""

    section: str
    name: str
    status: str
    text: str


def examine() -> Iterator[Finding]:
    """Yield what is found, without the self-test."""
    yield from _python()
    yield from _torch()
    yield from _parts()
    yield from _compilers()
    yield from _folders()
    yield from _environment()
    found = "installed" if drop_in.is_installed() else "not installed"
    yield Finding("drop-in", "torch.compile", "ok", f"{found} in this process")


def _python() -> Iterator[Finding]:
    text = f"{platform.python_implementation()} {platform.python_version()} on {platform.platform()}, {sys.executable}"
    yield Finding("Python", "interpreter", "ok", text)


def _torch() -> Iterator[Finding]:
    device = torch.version.cuda and f"CUDA {torch.version.cuda}, {torch.cuda.device_count()} devices" or "no CUDA"
    yield Finding("torch", "version", "ok", f"{torch.__version__}, {device}, {os.path.dirname(torch.__file__)}")
    yield Finding("torch", "native core", "ok", f"{_core.__file__}")
    believed = ", ".join(what for what, _, _ in _core.LAYOUTS)  # a core that is wrong about one is not loaded
    yield Finding("torch", "layouts", "ok", f"{len(_core.LAYOUTS)} of CPython's and torch's as expected: {believed}")


def _parts() -> Iterator[Finding]:
    """The private parts of torch that framelift uses: found, or what is lost."""
    rows = list(ports())
    for area, port, has in rows:
        if not has and not port.versions:
            lost = port.lost or AREAS[area].lost
            yield Finding("parts of torch", f"{area}.{port.name}", "wrong", f"{port.sentence()}; lost: {lost}")
    others = [port.name for _, port, has in rows if not has and port.versions]
    text = f"{sum(has for *_, has in rows)} of {len(rows)} found"
    text += f"; not meant for this torch: {', '.join(others)}" if others else ""
    yield Finding("parts of torch", "in all", "ok", text)


def _compilers() -> Iterator[Finding]:
    try:
        path = compiler()
        line = subprocess.run([*path, "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
        yield Finding("compilers", "C++", "ok", f"{' '.join(path)}: {line}")
    except BuildFailed as error:
        yield Finding("compilers", "C++", "note", f"Inductor compiles nothing for the CPU: {error}")
    triton = importlib.util.find_spec("triton") is not None
    needed = torch.cuda.is_available()
    text = "there" if triton else "not there: Inductor compiles nothing for CUDA" if needed else "not there, not needed"
    yield Finding("compilers", "Triton", "note" if needed and not triton else "ok", text)


def _folders() -> Iterator[Finding]:
    inductor = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or f"/tmp/torchinductor_{getpass.getuser()}"
    for name, path in (("kept captures", folder()), ("Inductor", inductor)):
        existing = path
        while not os.path.exists(existing):
            existing = os.path.dirname(existing)
        facts = os.stat(existing)
        text = path if existing == path else f"{path} (not made yet, would be in {existing})"
        text += f": owner {facts.st_uid}, mode {facts.st_mode & 0o7777:o}"
        if not os.access(existing, os.W_OK):
            yield Finding("caches", name, "note", f"{text}; it cannot be written, so nothing new is kept")
        elif existing == path and (facts.st_uid != os.getuid() or facts.st_mode & 0o022):
            yield Finding("caches", name, "note", f"{text}; others than you ({os.getuid()}) may write to it")
        else:
            yield Finding("caches", name, "ok", text)


def _environment() -> Iterator[Finding]:
    unknown = unknown_variables()
    for name in sorted(os.environ):
        if name.startswith("FRAMELIFT_"):
            text = f"{os.environ[name]}{f'; {unknown[name]}' if name in unknown else ''}"
            yield Finding("environment", name, "note" if name in unknown else "ok", text)
    for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        if os.environ.get(name):
            text = f"{os.environ[name]}: " + ("nothing is compiled" if config.disable else "torch.compile is off")
            yield Finding("environment", name, "note", text)


# ---- the command
# ----------------------------------------------------------------------------------------------------------


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--no-test", action="store_true", help="leave the self-test out")


def _doctor(options: argparse.Namespace) -> int:
    found = list(examine())
    if not options.json:
        _print(found)
    results = []
    for result in self_test.results() if not options.no_test else ():
        one = Finding("self-test", result.name, "ok" if result.passed else "wrong", result.text)
        results.append(one)
        if not options.json:
            _print([one], first=len(results) == 1)
    everything = [*found, *results]
    wrong = [one for one in everything if one.status == "wrong"]
    if options.json:
        print(json.dumps({"framelift": __version__, "findings": [asdict(one) for one in everything]}, indent=1))
    else:
        print(f"\nframelift {__version__}: " + (f"{len(wrong)} of these are wrong" if wrong else "nothing is wrong"))
    return 1 if wrong else 0


def _print(findings: list[Finding], first: bool = True) -> None:
    section = "" if first else findings[0].section
    for one in findings:
        if one.section != section:
            section = one.section
            print(f"\n{section}")
        print(printable(f"  {one.status:5}  {one.name}: {one.text}"), flush=True)


cli.COMMANDS["doctor"] = (
    "check that framelift works on this machine, and say what it goes without",
    _arguments,
    _doctor,
)
