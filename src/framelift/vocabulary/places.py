"""Places in the user's source: which expression an instruction belongs to, and how it is shown with a caret.

Data and text only.  What happened at a place is said by those who ask.
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import os
import sys
import sysconfig
import traceback
import types
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from .._core import id


@dataclass(frozen=True, slots=True)
class Place:
    """One expression of the source.  Columns count characters from 0; -1 where CPython does not know them."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str

    def __str__(self) -> str:
        return f"{cell_name(self.file) or self.file}:{self.line} in {self.function}"

    def encloses(self, other: Place) -> bool:
        """Return whether the other is a part of this expression, and not all of it."""
        return (
            self.file == other.file
            and self != other
            and 0 <= self.column
            and 0 <= other.column
            and (self.line, self.column) <= (other.line, other.column)
            and (other.end_line, other.end_column) <= (self.end_line, self.end_column)
        )


#: by (id of code, offset), with the code, so that the id stays its own; code objects compare equal across files
_known: dict[tuple[int, int], tuple[types.CodeType, Place]] = {}
_MOST_KNOWN = 20_000
#: what was made of instructions -> these: (code, offset) of a place, what `_core.places()` gave of a stack's text
_behind: dict[Place | str, tuple[Any, ...]] = {}


def behind(shown: Place | str) -> tuple[Any, ...] | None:
    """Return the (code, offset, ...) that a place or the text of a stack was made of; None where that is not known."""
    return _behind.get(shown)


def _remember(shown: Place | str, made_of: tuple[Any, ...]) -> None:
    if len(_behind) >= _MOST_KNOWN:
        _behind.clear()
    _behind[shown] = made_of


def place_of(code: types.CodeType, offset: int) -> Place:
    """The place of the instruction at byte `offset` of `code`; `~n` is the first use of local number n.

    >>> def f(x):
    ...     return x + 1
    >>> place_of(f.__code__, 0).function
    'f'
    """
    found = _known.get((id(code), offset))
    if found is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[id(code), offset] = (code, _located(code, offset))
        _remember(found[1], (code, offset))
    return found[1]


def first_use(code: types.CodeType, name: str) -> int:
    """The byte offset of the first instruction that reads the parameter `name`; 0 where none does."""
    for instruction in dis.get_instructions(code):
        named = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")) and name in named:
            return instruction.offset
    return 0


#: instructions whose place is a whole statement in some versions of CPython; what they look at was evaluated before
_LOOKING = frozenset(
    {dis.opmap[name] for name in dis.opmap if "JUMP" in name and "_IF_" in name}
    | {dis.opmap[name] for name in ("TO_BOOL", "UNARY_NOT", "COPY", "GET_ITER") if name in dis.opmap}
)
_BETWEEN = frozenset(dis.opmap[name] for name in ("EXTENDED_ARG", "CACHE", "NOT_TAKEN") if name in dis.opmap)


def _evaluated(code: types.CodeType, offset: int) -> int:
    """The instruction that evaluated what a condition or a loop looks at; any other instruction is its own."""
    if offset >= len(code.co_code) or code.co_code[offset] not in _LOOKING:
        return offset
    before = [one for one in dis.get_instructions(code) if one.offset <= offset and one.opcode not in _BETWEEN]
    return next((one.offset for one in reversed(before) if one.opcode not in _LOOKING), offset)


def _located(code: types.CodeType, offset: int) -> Place:
    offset = first_use(code, code.co_varnames[~offset]) if offset < 0 else _evaluated(code, offset)
    line, end_line, column, end_column = _core.location(code, offset)
    line = line if line is not None else code.co_firstlineno
    end_line = end_line if end_line is not None else line
    # no text, or none of the program's
    if column is None or end_column is None or line == end_line and column >= end_column:
        return Place(code.co_filename, line, line, -1, -1, code.co_qualname)
    return Place(
        code.co_filename,
        line,
        end_line,
        _characters(code.co_filename, line, column),
        _characters(code.co_filename, end_line, end_column),
        code.co_qualname,
    )


def places_of(flat: tuple[Any, ...]) -> tuple[Place, ...]:
    """Return the places in a result of `_core.places()`, outermost first."""
    return tuple(place_of(flat[i], flat[i + 1]) for i in range(len(flat) - 2, -1, -2))


def _characters(file: str, line: int, column: int) -> int:
    """CPython counts bytes of UTF-8; people count characters."""
    text = linecache.getline(file, line)
    return column if text.isascii() else len(text.encode()[:column].decode(errors="replace"))


def expression(place: Place, limit: int = 120) -> str:
    """The source text of the place on one line; the whole line where the columns are not known."""
    lines = [linecache.getline(place.file, n).rstrip("\n") for n in range(place.line, place.end_line + 1)]
    if not lines or not lines[0].strip():
        return ""
    if len(lines) > 1 and lines[0].rstrip().endswith(":"):  # a block: its head says enough
        return lines[0].strip()
    is_part = len(lines) > 1
    if place.column >= 0:
        is_part = is_part or lines[0][: place.column].rstrip().endswith(".")  # a method, below what it is called on
        lines[-1] = lines[-1][: place.end_column]
        lines[0] = lines[0][place.column :]
    text = (_on_one_line(place) if is_part else "") or " ".join(line.strip() for line in lines)
    return text if len(text) <= limit else _shortened(text, limit)


def is_python(text: str) -> bool:
    """Return whether a text is Python by itself: an expression or a statement.

    >>> is_python("x.sum() > 0"), is_python("if x.sum() > 0:")
    (True, False)
    """
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _on_one_line(place: Place) -> str:
    """What is written on several lines as Python writes it on one, a method with what it is called on; "" where it is
    not found."""
    for node in _nodes("".join(linecache.getlines(place.file))).get((place.end_line, place.end_column), ()):
        is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if (node.lineno, node.col_offset) == (place.line, place.column) or is_method:
            return ast.unparse(node).partition("\n")[0]
    return ""


_Nodes = dict[tuple[int, int | None], list[ast.expr]]
_last_nodes: dict[str, _Nodes] = {}


def _nodes(source: str) -> _Nodes:
    """The expressions of a file by where they end, the outermost first; those of the last file are remembered."""
    if source in _last_nodes:
        return _last_nodes[source]
    _last_nodes.clear()
    found = _last_nodes[source] = {}
    for node in ast.walk(ast.parse(source)) if is_python(source) else ():
        if isinstance(node, ast.expr) and node.end_lineno is not None:
            found.setdefault((node.end_lineno, node.end_col_offset), []).append(node)
    return found


def _shortened(text: str, limit: int) -> str:
    """A long text; of a call, what is called."""
    node = ast.parse(text).body[0] if is_python(text) else None
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = f"{ast.unparse(node.value.func)}(...)"
        if len(called) <= limit:
            return called
    return text[:limit] + "..."


def caret(place: Place) -> str:
    """The source line, and below it carets under the expression; "" where there is no source.

    A place of several lines is shown by its first.
    """
    text = linecache.getline(place.file, place.line).rstrip("\n")
    stripped = text.strip()
    if not stripped:
        return ""
    if place.column < 0:
        return stripped
    start = place.column - (len(text) - len(text.lstrip()))
    end = place.end_column if place.end_line == place.line else len(text.rstrip())
    width = max(1, end - place.column)
    if start <= 0 and width >= len(stripped):
        return stripped  # carets under everything say nothing
    return f"{stripped}\n{' ' * max(start, 0)}{'^' * width}"


_texts: dict[int, tuple[tuple[Any, ...], str]] = {}


def stack_text(flat: tuple[Any, ...]) -> str:
    """Format a result of `_core.places()` as FX nodes' stack trace; cached by identity, one tuple for equal places.

    What calls a module's forward is nothing of the program's.
    """
    found = _texts.get(id(flat))
    if found is None:
        if len(_texts) >= _MOST_KNOWN:
            _texts.clear()
        shown = [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2) if flat[i].co_filename != _CALLS_OF_MODULES]
        found = _texts[id(flat)] = (flat, "".join([_row(*one) for one in reversed(shown)]))
        _remember(found[1], tuple([part for one in shown for part in one]))
    return found[1]


_CALLS_OF_MODULES = torch.nn.modules.module.__file__
_rows: dict[tuple[int, int], tuple[types.CodeType, str]] = {}


def _row(code: types.CodeType, offset: int) -> str:
    """One frame of a stack trace."""
    found = _rows.get((id(code), offset))
    if found is None:
        if len(_rows) >= _MOST_KNOWN:
            _rows.clear()
        file, line = code.co_filename, _core.location(code, offset)[0] or code.co_firstlineno
        text = f'  File "{file}", line {line}, in {code.co_qualname}\n    {linecache.getline(file, line).strip()}\n'
        found = _rows[id(code), offset] = (code, text)
    return found[1]


def forget() -> None:
    """Let go of all code objects."""
    _last_nodes.clear()
    _known.clear()
    _behind.clear()
    _texts.clear()
    _rows.clear()


def shown_stack(places: tuple[Place, ...], indent: str = "  ") -> str:
    """A stack as a traceback shows it, outermost first, the last place with its caret.  Of functions of libraries
    the innermost is shown."""
    rows = []
    own = tuple([place for place in places if not is_library(place.file)])
    struck = struck_below(places)
    places = own + (struck,) if struck is not None else own or places[-1:]
    for number, place in enumerate(places):
        text = caret(place) if number == len(places) - 1 else linecache.getline(place.file, place.line).strip()
        rows.append(f'{indent}File "{cell_name(place.file) or place.file}", line {place.line}, in {place.function}')
        rows += [f"{indent}  {line}" for line in text.splitlines()]
    return "\n".join(rows)


def summary(places: tuple[Place, ...]) -> traceback.StackSummary:
    """Places as the traceback module keeps a stack."""
    rows = [
        traceback.FrameSummary(
            p.file,
            p.line,
            p.function,
            lookup_line=False,
            end_lineno=p.end_line,
            colno=p.column if p.column >= 0 else None,
            end_colno=p.end_column if p.column >= 0 else None,
        )
        for p in places
    ]
    return traceback.StackSummary.from_list(rows)


def cell_name(file: str) -> str:
    """A cell of a notebook as it is numbered there; "" for any other file."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    found = shell.compile.format_code_name(file) if shell is not None else None
    return f"cell {found[1]}" if found is not None else ""


def brief(file: str) -> str:
    """A file's name as reports show it: a cell of a notebook, or relative to the current folder, or to where packages
    are installed."""
    if cell := cell_name(file):
        return cell
    for root in (*_library_folders(), _folder()):  # packages first: an environment may lie in the current folder
        if root and file.startswith(root.rstrip(os.sep) + os.sep):
            return file[len(root.rstrip(os.sep)) + 1 :]
    return file


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return paths["purelib"], paths["platlib"], paths["stdlib"]


def is_library(file: str) -> bool:
    """Return whether a file belongs to an installed package or to Python itself, rather than to the user."""
    return file.startswith((*_library_folders(), "<frozen"))


def struck_below(places: tuple[Place, ...]) -> Place | None:
    """The innermost place, where that is a library's below the user's own: how torch calls a module says nothing."""
    if not places or places[-1] == users(places) or calls_a_module(places[-1]):
        return None
    return places[-1]


def calls_a_module(place: Place) -> bool:
    """Return whether a place is how torch calls a module, its hooks included."""
    return place.file == _CALLS_OF_MODULES


def users(places: tuple[Place, ...]) -> Place | None:
    """The innermost place that is the user's own code rather than an installed library's; else the innermost."""
    for place in reversed(places):
        if not is_library(place.file):
            return place
    return places[-1] if places else None
