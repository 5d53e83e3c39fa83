"""The command line: `python -m framelift COMMAND ...`.  A command is an entry of `COMMANDS`.

- run SCRIPT [ARGS]: run a script whose torch.compile is framelift
- report SCRIPT [ARGS]: run a script, and write a report of all that was captured in it
- explain REASON: what a reason means, and what to do about it
- minify REPRO: make a repro file smaller as long as it fails (added by `repro_files.py`)
- package SCRIPT [ARGS]: write packages of all that a script compiles, or show one (added by `cli_package.py`)
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import runpy
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ..report import chrome_trace, report_of_all
from ..report.reason_page import reason_page
from ..vocabulary.reasons import REASONS
from ..vocabulary.version import __version__
from . import compiling, drop_in

Command = tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]
#: name -> (one line of help, what adds its arguments, what runs it)
COMMANDS: dict[str, Command] = {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="framelift", description="Graph capture for PyTorch: torch.compile, faster.")
    parser.add_argument("--version", action="version", version=f"framelift {__version__}, torch {torch.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (text, add_arguments, _) in COMMANDS.items():
        add_arguments(commands.add_parser(name, help=text, description=text))
    options = parser.parse_args(arguments)
    return COMMANDS[options.command][2](options)


def run_script(script: str, arguments: Sequence[str], module: bool = False) -> int:
    """Run a script as `python script args` would; returns its exit status.  An exception is shown, not raised."""
    before = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    try:
        if module:
            sys.path.insert(0, "")
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(script).resolve().parent))
            runpy.run_path(script, run_name="__main__")
        return 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except Exception as error:
        traceback.print_exception(type(error), error, _own_part(error.__traceback__))
        return 1
    finally:
        sys.argv, sys.path[:] = before[0], before[1]


def is_missing(options: argparse.Namespace) -> bool:
    """Return whether there is no such script, which is then said."""
    missing = not options.module and not Path(options.script).exists()
    if missing:
        print(f"framelift: there is no script {options.script}", file=sys.stderr)
    return missing


def _own_part(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames that only started the script."""
    part = trace
    while part is not None and part.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>", runpy.__file__):
        part = part.tb_next
    return part or trace


# ---- run
# --------------------------------------------------------------------------------------------------------------


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", help="the program to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def _run(options: argparse.Namespace) -> int:
    if is_missing(options):
        return 2
    with drop_in.installed():
        return run_script(options.script, options.arguments, options.module)


# ---- report
# -----------------------------------------------------------------------------------------------------------


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--out", default="framelift_report.html", help="the HTML file (default: %(default)s); - for none"
    )
    parser.add_argument("--json", help="also write the report as JSON")
    parser.add_argument("--trace", help="also write the timeline as a Chrome trace")
    parser.add_argument("--text", action="store_true", help="also print the report")
    parser.add_argument("--drop-in", action="store_true", help="calls of torch.compile in the script use framelift")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", help="the program to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def _report(options: argparse.Namespace) -> int:
    if is_missing(options):
        return 2
    kept = compiling.keep_compiled()
    with drop_in.installed() if options.drop_in else contextlib.nullcontext():
        status = run_script(options.script, options.arguments, options.module)
    found = report_of_all(kept, Path(options.script).name)
    written: dict[str, tuple[str | None, Callable[[], str]]] = {
        "HTML": (options.out if options.out != "-" else None, found.to_html),
        "JSON": (options.json, found.to_json),
        "Chrome trace": (options.trace, lambda: chrome_trace(found)),
    }
    for kind, (path, text) in written.items():
        if path:
            Path(path).write_text(text(), encoding="utf-8")
            print(f"framelift: {kind} report in {path}", file=sys.stderr)
    if options.text:
        print(found)
    if not found.captures:
        hint = "" if options.drop_in else "; for a script that calls torch.compile, use --drop-in"
        print(
            f"framelift: nothing was captured: the script calls nothing that framelift.compile returned{hint}",
            file=sys.stderr,
        )
    return status


# ---- explain
# ----------------------------------------------------------------------------------------------------------


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reason", nargs="?", help="a reason's id; without it all are listed")


def _explain(options: argparse.Namespace) -> int:
    if options.reason is None:
        for one in REASONS.values():
            print(f"{one.id:24} {one.sentence.format(detail='…')}")
        return 0
    reason = REASONS.get(options.reason)
    if reason is None:
        close = difflib.get_close_matches(options.reason, REASONS, 1)
        print(
            f"no reason is called {options.reason!r}; "
            + (f"did you mean {close[0]}?" if close else "`python -m framelift explain` lists them"),
            file=sys.stderr,
        )
        return 2
    print(reason_page(reason.id), end="")
    return 0


COMMANDS["run"] = ("run a script whose torch.compile is framelift", _run_arguments, _run)
COMMANDS["report"] = ("run a script and write a report of all that was captured in it", _report_arguments, _report)
COMMANDS["explain"] = ("what a break's reason means, and what to do about it", _explain_arguments, _explain)
