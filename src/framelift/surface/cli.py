"""The command line: `framelift COMMAND ...`, or `python -m framelift`.  A command is an entry of `COMMANDS`.

- run SCRIPT [ARGS]: run a script whose torch.compile is framelift
- report SCRIPT [ARGS]: run a script, and write a report of all that was captured in it
- join REPORT.json ...: one page over the reports of several ranks or processes
- explain REASON: what a reason means, and what to do about it
- minify REPRO: make a repro file smaller as long as it fails (added by `repro_files.py`)
- package SCRIPT [ARGS]: write packages of all that a script compiles, or show one (added by `cli_package.py`)
- export SCRIPT [ARGS]: write all that a script exports, with a page (added by `cli_export.py`)
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import runpy
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ..report import chrome_trace, report_of_all
from ..report.html import page_of_all
from ..report.model import SCHEMA_VERSION
from ..report.reason_page import reason_page
from ..vocabulary.log import printable
from ..vocabulary.reasons import REASONS
from ..vocabulary.version import __version__
from . import compiling, drop_in

Command = tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]
#: name -> (one line of help, what adds its arguments, what runs it)
COMMANDS: dict[str, Command] = {}


_EXAMPLES = """examples:
  framelift run train.py --epochs 1          the script's torch.compile is framelift
  framelift report train.py --epochs 1       the same, and a page that shows what was captured and what was not
  framelift explain tensor-bool              what a graph break's reason means, and what to do about it
  framelift doctor                           does framelift work on this machine?

`framelift COMMAND --help` lists the options of a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(
        "framelift",
        description="Graph capture for PyTorch: torch.compile, faster.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"framelift {__version__}, torch {torch.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, (text, add_arguments, _) in COMMANDS.items():
        add_arguments(commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}."))
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    if getattr(options, "arguments", None):
        options = _with_flags_behind(commands.choices[options.command], options)
    return COMMANDS[options.command][2](options)


def _with_flags_behind(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    """The command's own flags may stand behind the script, too: they are taken out of the script's arguments, up to a
    `--`, behind which all is the script's."""
    flags = {name: action for action in parser._actions for name in action.option_strings if action.dest in _BEHIND}
    own: list[str] = []
    rest, waiting = [], list(options.arguments)
    while waiting:
        word = waiting.pop(0)
        action = flags.get(word.partition("=")[0])
        if word == "--":
            rest += waiting
            break
        if action is None:
            rest.append(word)
            continue
        own.append(word)
        if action.nargs is None and "=" not in word:
            own += waiting[:1]
            del waiting[:1]
    found = parser.parse_args([*own, options.script], options)
    found.arguments = rest
    return found


#: what may stand behind the script: what the commands write.  `-m` and `--help` are the script's there
_BEHIND = frozenset({"out", "json", "trace", "text", "key", "unsigned", "weights"})


def add_script(parser: argparse.ArgumentParser) -> None:
    """Add a script and its arguments to a command, and whether its torch.compile is framelift."""
    parser.add_argument(
        "--no-drop-in",
        dest="drop_in",
        action="store_false",
        help="leave torch.compile as it is: only what the script compiles with framelift.compile is captured by it",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", nargs="?", help="the program to run")
    parser.add_argument("arguments", metavar="ARGUMENTS", nargs=argparse.REMAINDER, help="its arguments")


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


def run(options: argparse.Namespace) -> int | None:
    """Run the script that a command names; returns its exit status, or None where there is no such script, which is
    then said."""
    if options.script is None or not options.module and not Path(options.script).exists():
        missing = "name a script to run" if options.script is None else f"there is no script {options.script}"
        print(f"framelift: {missing}", file=sys.stderr)
        return None
    with drop_in.installed() if options.drop_in else contextlib.nullcontext():
        return run_script(options.script, options.arguments, options.module)


def _own_part(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames that only started the script."""
    part = trace
    while part is not None and part.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>", runpy.__file__):
        part = part.tb_next
    return part or trace


# ---- run and report
# -----------------------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    status = run(options)
    return 2 if status is None else status


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "These options may stand behind SCRIPT, too; what follows a `--` there is the script's own."
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        default="framelift_report.html",
        help="the page to write (default: %(default)s); - for none",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON")
    parser.add_argument("--trace", metavar="FILE", help="also write the timeline as a Chrome trace")
    parser.add_argument("--text", action="store_true", help="also print the report")
    add_script(parser)


def _report(options: argparse.Namespace) -> int:
    kept = compiling.keep_compiled()
    before = len(kept)
    status = run(options)
    if status is None:
        return 2
    found = report_of_all(kept, Path(options.script).name)
    written: dict[str, tuple[str | None, Callable[[], str]]] = {
        "HTML": (options.out if options.out != "-" else None, found.to_html),
        "JSON": (options.json, found.to_json),
        "Chrome trace": (options.trace, lambda: chrome_trace(found)),
    }
    for kind, (path, text) in written.items():
        if path:
            path = _of_rank(path)
            Path(path).write_text(text(), encoding="utf-8")
            print(f"framelift: {kind} report in {path}", file=sys.stderr)
    if options.text:
        print(found)
    if found.is_empty:
        print(f"framelift: nothing was called: {_why_empty(options.drop_in, len(kept) > before)}", file=sys.stderr)
    return status


def _of_rank(path: str) -> str:
    """Return a file name of its own for each rank of a distributed program."""
    rank = os.environ.get("RANK") if os.environ.get("WORLD_SIZE", "1") != "1" else None
    return path if rank is None else str(Path(path).with_stem(f"{Path(path).stem}.rank{rank}"))


def _why_empty(installed: bool, compiled: bool) -> str:
    if compiled:
        return "the script compiles something, and made no call of it"
    return (
        "the script calls neither torch.compile nor framelift.compile"
        if installed
        else "the script does not call framelift.compile"
    )


def _join_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", metavar="REPORT.json", nargs="+", help="what `framelift report --json` wrote")
    parser.add_argument(
        "-o", "--out", metavar="FILE", default="framelift_report.html", help="the page to write (default: %(default)s)"
    )


def _join(options: argparse.Namespace) -> int:
    found: dict[str, dict[str, Any]] = {}
    for path in options.reports:
        try:
            found[path] = json.loads(Path(path).read_text("utf-8"))
            is_known = found[path]["schema"] == SCHEMA_VERSION
        except (OSError, ValueError, KeyError, TypeError):
            is_known = False
        if not is_known:
            print(f"framelift: {path} is no report that this version of framelift made as JSON", file=sys.stderr)
            return 2
    Path(options.out).write_text(page_of_all(found), encoding="utf-8")
    print(f"framelift: HTML page of {len(found)} reports in {options.out}", file=sys.stderr)
    return 0


# ---- explain
# ----------------------------------------------------------------------------------------------------------


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reason", nargs="?", help="a reason's id; without it all are listed")


def _explain(options: argparse.Namespace) -> int:
    if options.reason is None:
        for one in REASONS.values():
            print(printable(f"{one.id:24} {one.sentence.format(detail='...')}"))
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
    print(printable(reason_page(reason.id)), end="")
    return 0


COMMANDS["run"] = ("run a script whose torch.compile is framelift", add_script, _run)
COMMANDS["report"] = ("run a script whose torch.compile is framelift, and write a report", _report_arguments, _report)
COMMANDS["join"] = ("write one page over the reports of several ranks or processes", _join_arguments, _join)
COMMANDS["explain"] = ("what a break's reason means, and what to do about it", _explain_arguments, _explain)
