"""Builds the documentation site: docs/ as it is, with lists of files and reference pages from docstrings and tables.

python tools/docs.py          write build/docs and run mkdocs on it (build/site); warnings are errors
python tools/docs.py --only   write build/docs only
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import importlib.util
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import textwrap
import types
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGES, SITE_TOOLS = ROOT / "docs", ROOT / "build" / "docs", ROOT / "build" / "docs_env"


#: what one wants to do -> the public names for it
TASKS = {
    "Compile": "compile OptimizedModule wait reset is_supported aot_autograd",
    "Look at what was captured": "explain dry_run stats counters set_logs comptime save_repro Recompile",
    "Capture for an engine": "capture load_capture CapturedGraph",
    "Say what changes": "mark_dynamic maybe_mark_dynamic mark_static mark_static_address mark_unbacked ModelInput",
    "Steer what is captured": "disable allow_in_graph disallow_in_graph forbid_in_graph substitute_in_graph "
    "nonstrict_trace assume_constant_result graph_break error_on_graph_break skip skip_frame step_unsupported "
    "dont_skip_tracing "
    "is_dynamo_disable_recursive set_stance run config set_enable_guard_collectives",
    "Choose a backend": "list_backends lookup_backend register_backend get_default_backend set_default_backend",
    "Migrate from torch.compile": "install installed is_installed uninstall",
    "Save, load and export": "export save_package load_package show_package load_compiled_function AOTCompiledFunction",
    "Build on it": "fullgraph_capture GraphCapture on_compile_start on_compile_end register_entry_hook",
    "Errors and tests": "exc testing",
}


def api_page() -> str:
    """Every public name with its signature and docstring, by what it is for."""
    import framelift

    rows = ["# Functions and classes", "", "Everything here is a name of `framelift`, by what one wants to do.", ""]
    known = {name for names in TASKS.values() for name in names.split()}
    rest = {"More": " ".join(sorted(set(framelift.__all__) - known))}
    for task, names in (TASKS | rest).items():
        rows += [f"## {task}", ""] if names else []
        for name in names.split():
            rows += _entry(f"framelift.{name}", getattr(framelift, name))
    for name in framelift.testing.__all__:
        rows += _entry(f"framelift.testing.{name}", getattr(framelift.testing, name))
    return "\n".join(rows) + "\n"


def _entry(name: str, value: Any) -> list[str]:
    if isinstance(value, types.ModuleType) or not (callable(value) or inspect.isclass(value)):
        return [
            f"### `{name}`",
            "",
            *_text(
                (value.__doc__ or "").split("\n\n")[0]
                if isinstance(value, types.ModuleType)
                else f"A {type(value).__name__}."
            ),
            "",
        ]
    return [
        f"### `{name}`",
        "",
        f"```py\n{name}{_signature(value, 88 - len(name))}\n```",
        "",
        *_text(inspect.getdoc(value) or ""),
        "",
    ]


def _signature(value: Any, width: int) -> str:
    """On one line where it fits, else a line for each parameter."""
    with contextlib.suppress(ValueError, TypeError):
        found = inspect.signature(value)
        text = str(found).replace("'", "")
        if len(text) <= width:
            return text
        rows, bare = [], False
        for one in found.parameters.values():
            if one.kind is one.KEYWORD_ONLY and not bare and "*" not in "".join(rows):
                rows.append("*")
            bare = bare or one.kind is one.KEYWORD_ONLY
            rows.append(str(one).replace("'", ""))
        end = text.rpartition(")")[2]
        return "(\n" + "".join(f"    {row},\n" for row in rows) + f"){end}"
    return "(...)"


def _text(doc: str) -> list[str]:
    """A docstring as Markdown: examples become code blocks, sections' indented lines a list."""
    rows: list[str] = []
    for part in doctest.DocTestParser().parse(textwrap.dedent(doc)):
        if isinstance(part, doctest.Example):
            source = part.source.rstrip("\n").split("\n")
            shown = [f">>> {source[0]}", *(f"... {line}" for line in source[1:]), *part.want.rstrip("\n").splitlines()]
            if rows and rows[-1] == "```":
                rows[-1:] = [*shown, "```"]
            else:
                rows += ["", "```pycon", *shown, "```"]
        elif part.strip():
            rows += ["", *_items(part.strip("\n").splitlines())] if rows else _items(part.strip("\n").splitlines())
    return rows


def _items(lines: list[str]) -> list[str]:
    """Indented `name: meaning` lines as a list; what is indented further goes on with its item."""
    rows: list[str] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if indent == 4 and ":" in line:
            if rows and rows[-1] and not rows[-1].startswith(("- ", "  ")):
                rows.append("")
            name, _, meaning = line.strip().partition(":")
            rows.append(f"- `{name}`:{meaning}")
        else:
            rows.append(f"  {line.strip()}" if indent > 4 and rows else line)
    return rows


def options_page() -> str:
    """The table of options."""
    from framelift.vocabulary.options import OPTIONS

    rows = [
        f"| `{name}` | `{option.default!r}` | {option.meaning} |"
        for name, option in OPTIONS.items()
        if not option.ignored
    ]
    ignored = ", ".join(f"`{name}`" for name, option in OPTIONS.items() if option.ignored)
    return "\n".join(
        [
            "# Options",
            "",
            "`framelift.config.NAME = value`, `with framelift.config.patch(NAME=value):`, or the environment variable "
            "`FRAMELIFT_NAME`.",
            "",
            "| option | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
            f"Accepted without an effect, for programs written for torch.compile: {ignored}.",
            "",
        ]
    )


def report_page() -> str:
    """The records of a report."""
    from framelift.report import model

    rows = [
        "# The report's JSON",
        "",
        f"`report.to_json()` follows this schema, version {model.SCHEMA_VERSION}; "
        f"`framelift.report.SCHEMA` is the same as a "
        "JSON schema. Ids are made of names, files and lines, and stay the same from run to run.",
        "",
    ]
    source = inspect.getsource(model)
    for cls in (
        model.Report,
        model.Function,
        model.Capture,
        model.Break,
        model.RecompileCause,
        model.Refusal,
        model.Specialisation,
        model.Time,
        model.Guard,
        model.Span,
        model.Link,
        model.Phase,
        model.Source,
    ):
        rows += [
            f"## {cls.__name__}",
            "",
            (cls.__doc__ or "").strip(),
            "",
            "| field | type | meaning |",
            "|---|---|---|",
        ]
        body = source.split(f"class {cls.__name__}:")[1].split("\n@dataclass")[0].split("\n    def ")[0]
        for line in body.splitlines():
            head, _, comment = line.partition("#")
            name, colon, kind = head.strip().partition(":")
            if colon and name.isidentifier():
                rows.append(f"| `{name}` | `{kind.strip().replace('|', 'or')}` | {comment.strip()} |")
        rows.append("")
    return "\n".join(rows)


def command_line_page() -> str:
    """The help of every command."""
    from framelift.surface import cli, repro_files  # noqa: F401  (repros adds a command)

    rows = ["# Command line", ""]
    for name in cli.COMMANDS:
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            cli.main([name, "--help"])
        rows += [f"## python -m framelift {name}", "", "```text", text.getvalue().rstrip(), "```", ""]
    return "\n".join(rows)


def environment_page() -> str:
    """Every environment variable that framelift reads, or honours since torch.compile does."""
    from compatibility_rows import environment_rows

    from framelift.vocabulary.environment import VARIABLES
    from framelift.vocabulary.options import OPTIONS

    own = [(name, meaning, "") for name, meaning in VARIABLES.items()]
    own += [
        (f"FRAMELIFT_{name.upper()}", f"the option `{name}`: {option.meaning}", option.torch_variable)
        for name, option in OPTIONS.items()
        if not (option.ignored or option.by_torch or option.alias or isinstance(option.default, set))
    ]
    rows = [f"| `{name}` | {meaning} | {torch and f'`{torch}`'} |" for name, meaning, torch in sorted(own)]
    torchs = [
        f"| `{name}` | {row.verdict} | {row.note.replace('|', 'or')} |"
        for name, row in sorted(environment_rows().items())
    ]
    return "\n".join(
        [
            "# Environment variables",
            "",
            "They are read when framelift is imported. A variable `FRAMELIFT_...` that nothing reads, "
            "or whose text its option does not take, is named in a warning. For yes and no, `1`, `true`, `yes`, `on` "
            "and `0`, `false`, `no`, `off` are understood.",
            "",
            "## framelift's own",
            "",
            "| variable | what it is for | torch's name for it, also read |",
            "|---|---|---|",
            *rows,
            "",
            "## torch.compile's",
            "",
            "What the words in the second column mean is said in [what of torch.compile works](../compatibility.md).",
            "",
            "| variable | | |",
            "|---|---|---|",
            *torchs,
            "",
        ]
    )


GENERATED = {
    "api.md": api_page,
    "options.md": options_page,
    "environment.md": environment_page,
    "report.md": report_page,
    "command_line.md": command_line_page,
}


def files_of(package: str) -> str:
    """Return the section of a package's page that lists its files, with the first paragraph of each docstring."""
    rows = ["## Files", "", "| file | what |", "|---|---|"]
    for path in sorted((ROOT / "src" / "framelift" / package).rglob("*.py")):
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if path.name != "__init__.py":
            name, words = (
                path.relative_to(ROOT / "src" / "framelift").as_posix(),
                " ".join(doc.split("\n\n")[0].split()),
            )
            rows.append(f"| `{name}` | {words.replace('|', 'or')} |")
    return "\n".join([*rows, "", ""])


#: a link from a page to a file of the repository, which the site does not have
_TO_SOURCES = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:src|csrc|tests|tools)/[^)]*\)")


def write_pages() -> None:
    """Copy docs/, without links to files that are not on the site, and add the lists of files and the reference."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(SOURCE, PAGES, ignore=shutil.ignore_patterns("examples"))
    for page in PAGES.rglob("*.md"):
        page.write_text(_TO_SOURCES.sub(r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")
    for page in (PAGES / "internals").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        if "\n## Files" not in text:
            page.write_text(text.replace("## Tests\n", files_of(page.stem) + "## Tests\n"), encoding="utf-8")
    (PAGES / "reference").mkdir()
    for name, make in GENERATED.items():
        (PAGES / "reference" / name).write_text(make(), encoding="utf-8")


def site_python() -> str:
    """A Python that has mkdocs-material: this one, or an environment made for it."""
    if importlib.util.find_spec("material") is not None and importlib.util.find_spec("mkdocs") is not None:
        return sys.executable
    python = SITE_TOOLS / "bin" / "python"
    if not (SITE_TOOLS / "ready").exists():
        venv.create(SITE_TOOLS, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "mkdocs-material>=9.5,<10"], check=True)
        (SITE_TOOLS / "ready").touch()
    return str(python)


def main() -> int:
    from framelift.vocabulary.version import __version__

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="store_true", help="write the pages, build nothing")
    options = parser.parse_args()
    write_pages()
    if options.only:
        return 0
    return subprocess.run(
        [site_python(), "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(ROOT / "mkdocs.yml")],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "FRAMELIFT_SITE_VERSION": f"framelift {__version__}"},
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
