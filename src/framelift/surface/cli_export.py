"""`framelift export`: run a script, and write each program that it exports, with its inputs and a page."""

from __future__ import annotations

import argparse
import html
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..export import exported_program
from ..export.exported_program import Exported, draft_export
from ..report.html import static_page
from ..torch_ports.symbols import int_oo
from ..vocabulary.log import printable
from . import cli

_HEAD = ("input", "what", "dtype", "shape", "sizes that may change")


@dataclass(frozen=True)
class _Written:
    """One export of the script: a file and a table of its inputs, or what has to be changed."""

    name: str
    file: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    code: str = ""
    error: str = ""
    reasons: str = ""

    def text(self) -> str:
        """The table of inputs, or the error, as text."""
        if self.error:
            return "\n".join(filter(None, (f"{self.name} cannot be exported: {self.error}", self.reasons)))
        rows = (_HEAD, *self.rows)
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
        return "\n".join((f"{self.name} in {self.file}", *lines))

    def html(self) -> str:
        """The same as a part of the page, with the graph's code."""
        title = f"<h2>{html.escape(self.name)}</h2>"
        if self.error:
            body = f"<h3>cannot be exported</h3><pre>{html.escape(self.error)}</pre>"
            if self.reasons:
                body += f"<h3>All that has to be changed</h3><pre>{html.escape(self.reasons)}</pre>"
            return f'{title}<div class="card bad">{body}</div>'
        head = "".join(f"<th>{name}</th>" for name in _HEAD)
        rows = "".join("<tr>" + "".join(map(_cell, _HEAD, row)) + "</tr>" for row in self.rows)
        use = html.escape(f'torch.export.load("{self.file}").module()')
        return (
            f'{title}<p>It runs by <code>{use}</code>.</p><table class="stack"><tr>{head}</tr>{rows}</table>'
            f"<details><summary>Graph</summary><pre>{html.escape(self.code)}</pre></details>"
        )


def _cell(head: str, text: str) -> str:
    return f'<td data-h="{head}">{html.escape(text)}</td>'


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "The script calls torch.export.export or framelift.export.export; of an export that fails, the page has "
        "every place that has to be changed."
    )
    parser.add_argument(
        "-o", "--out", metavar="FOLDER", default="framelift_export", help="where to write (default: %(default)s)"
    )
    parser.add_argument("--text", action="store_true", help="also print the tables")
    cli.add_script(parser)


def _export(options: argparse.Namespace) -> int:
    with exported_program.kept() as exports:
        status = cli.run(options)
    if status is None:
        return 2
    if not exports:
        print("framelift: nothing was exported: the script does not call torch.export.export", file=sys.stderr)
        return status or 1
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    written = [_write(one, name, folder) for one, name in zip(exports, _names(exports))]
    page = static_page(f"framelift: exports of {Path(options.script).name}", "".join(one.html() for one in written))
    (folder / "index.html").write_text(page, encoding="utf-8")
    text = "\n\n".join(one.text() for one in written) + "\n"
    (folder / "inputs.txt").write_text(text, encoding="utf-8")
    if options.text:
        print(printable(text), end="")
    failed = sum(bool(one.error) for one in written)
    counts = f"{len(written) - failed} programs" + (f" and {failed} that cannot be exported" if failed else "")
    print(f"framelift: {counts}: {folder / 'index.html'}", file=sys.stderr)
    return status or (1 if failed else 0)


def _names(exports: list[Exported]) -> Iterator[str]:
    """The names of the modules' classes, numbered where one comes again."""
    count: dict[str, int] = {}
    for one in exports:
        name = re.sub(r"[^A-Za-z0-9]+", "_", type(one.module).__name__)
        count[name] = count.get(name, 0) + 1
        yield name if count[name] == 1 else f"{name}_{count[name]}"


def _write(one: Exported, name: str, folder: Path) -> _Written:
    if one.program is None:
        return _Written(name, error=f"{type(one.error).__name__}: {one.error}", reasons=_reasons(one))
    path = folder / f"{name}.pt2"
    try:
        torch.export.save(one.program, path)
    except Exception as error:  # whatever an object of the program raises when it is written
        return _Written(name, error=f"it was exported, but torch.export.save failed: {_first_line(error)}")
    return _Written(name, str(path), tuple(_rows(one.program)), one.program.graph_module.print_readable(False))


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def _reasons(one: Exported) -> str:
    """What draft_export says of the same call: each place that has to be changed, with its line."""
    try:
        report = draft_export(one.module, one.args, one.kwargs, **one.options | {"strict": False})._report
    except Exception as error:  # the program itself fails
        return "" if str(error) == str(one.error) else f"draft_export: {_first_line(error)}"
    return re.sub(r"\x1b\[\d*m", "", str(report)).strip()


def _rows(program: Any) -> Iterator[tuple[str, ...]]:
    """A row for each input of the call: its path, what it is, and which of its sizes may change."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind.name != "USER_INPUT":
            continue
        node = nodes.get(getattr(spec.arg, "name", ""))
        value = None if node is None else node.meta.get("val")
        if isinstance(value, torch.Tensor):
            shape = f"({', '.join(map(str, value.shape))}{',' if value.dim() == 1 else ''})"
            cells = ("tensor", str(value.dtype).removeprefix("torch."), shape, _ranges(program, tuple(value.shape)))
        elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            cells = (type(value).__name__, "", "", _ranges(program, (value,)))
        else:
            cells = (f"constant {getattr(spec.arg, 'value', None)!r}", "", "", "")
        yield (getattr(spec.arg, "name", ""), *cells)


def _ranges(program: Any, sizes: tuple[Any, ...]) -> str:
    """The ranges of the symbols in sizes: `s0 from 2 to 64`."""
    symbols: dict[Any, None] = {}
    for size in sizes:
        if not isinstance(size, int):
            symbols |= dict.fromkeys(sorted(size.node.expr.free_symbols, key=str))
    found = []
    for symbol in symbols:
        span = program.range_constraints.get(symbol)
        if span is not None:
            found.append(f"{symbol} from {span.lower}" + ("" if span.upper == int_oo else f" to {span.upper}"))
    return ", ".join(found)


cli.COMMANDS["export"] = ("run a script, and write each program that it exports, with a page", _arguments, _export)
