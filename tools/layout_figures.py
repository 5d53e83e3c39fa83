"""Prints the figures of a package's layout: sizes, long functions, import cycles, version tests.

    python tools/layout_figures.py FOLDER PACKAGE [NATIVE_FOLDER]

`Package` reads a folder once; tests/project/test_structure.py asserts on the same data that is printed here.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = ["Function", "Import", "Module", "Package", "figures"]


@dataclass(frozen=True)
class Function:
    """One function or method and its length in lines."""

    module: str
    name: str
    line: int
    lines: int


@dataclass(frozen=True)
class Import:
    """One import of a module by a module; `inside`: it stands in a function, `for_types`: below `TYPE_CHECKING`."""

    importer: str
    imported: str
    line: int
    inside: bool
    for_types: bool = False


class Module:
    """One file, parsed."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.is_package = path.name == "__init__.py"
        self.text = path.read_text(encoding="utf8")
        self.tree = ast.parse(self.text)
        self.lines = self.text.count("\n")

    @cached_property
    def functions(self) -> list[Function]:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [
            Function(self.name, n.name, n.lineno, n.end_lineno - n.lineno + 1)
            for n in ast.walk(self.tree)
            if isinstance(n, kinds)
        ]

    @cached_property
    def longest_chain(self) -> int:
        """Branches of the longest if/elif chain."""
        return max((_chain(n) for n in ast.walk(self.tree) if isinstance(n, ast.If)), default=0)

    def imports(self) -> list[Import]:
        """Every import, as absolute dotted names; `from a import b` names a.b, which may be a module or a name in a."""
        found: list[Import] = []
        self._collect(self.tree, False, False, found)
        return found

    def _collect(self, node: ast.AST, inside: bool, for_types: bool, found: list[Import]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for part in (*child.body, *child.orelse):
                    self._collect(ast.Module([part], []), inside, part in child.body, found)
                continue
            if isinstance(child, (ast.Import, ast.ImportFrom)):
                names = (f"{self._base(child)}.{a.name}".lstrip(".") for a in child.names)
                found += [Import(self.name, name, child.lineno, inside, for_types) for name in names]
            deeper = inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            self._collect(child, deeper, for_types, found)

    def _base(self, node: ast.Import | ast.ImportFrom) -> str:
        if isinstance(node, ast.Import):
            return ""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        up = node.level - self.is_package
        return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])


class Package:
    """All modules of a folder.  `native` names extension modules, which have no Python file."""

    def __init__(self, folder: Path, name: str, native: tuple[str, ...] = ("_core",)) -> None:
        self.name = name
        self.native = {f"{name}.{n}" for n in native}
        self.modules: dict[str, Module] = {}
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            full = ".".join([name, *(parts[:-1] if parts[-1] == "__init__" else parts)])
            self.modules[full] = Module(full, path)

    def own(self, imported: str) -> str | None:
        """The Python module of this package that an imported name means, if any."""
        while imported and imported not in self.native:
            if imported in self.modules:
                return imported
            imported = imported.rpartition(".")[0]
        return None

    @cached_property
    def edges(self) -> list[Import]:
        """Imports within the package, module to module."""
        found = []
        for module in self.modules.values():
            for one in module.imports():
                target = self.own(one.imported)
                if target is not None and target != module.name:
                    found.append(Import(module.name, target, one.line, one.inside, one.for_types))
        return found

    def cycles(self, with_functions: bool = True, with_types: bool = False) -> list[set[str]]:
        """Groups of modules that import each other, largest first."""
        graph: dict[str, set[str]] = {name: set() for name in self.modules}
        for edge in self.edges:
            if (with_functions or not edge.inside) and (with_types or not edge.for_types):
                graph[edge.importer].add(edge.imported)
        reach = {name: _reachable(graph, name) for name in graph}
        groups = {frozenset(m for m in reach[name] if name in reach[m]) for name in graph if name in reach[name]}
        return sorted((set(g) for g in groups if len(g) > 1), key=len, reverse=True)


def _chain(node: ast.If) -> int:
    length = 1
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node, length = node.orelse[0], length + 1
    return length


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


def figures(package: Package, native: Sequence[Path] = ()) -> list[tuple[str, str]]:
    """The figures as (name, text)."""
    sizes = sorted((m.lines, m.name) for m in package.modules.values())
    functions = sorted((f for m in package.modules.values() for f in m.functions), key=lambda f: f.lines)
    lengths = [f.lines for f in functions]
    text = "\n".join(m.text for m in package.modules.values())
    cycles = [package.cycles(False), package.cycles(with_types=True)]
    chain = max((m.longest_chain, m.name) for m in package.modules.values())
    return [
        ("files / lines", f"{len(sizes)} / {sum(n for n, _ in sizes)}"),
        ("median / largest file", f"{int(statistics.median(n for n, _ in sizes))} / {sizes[-1][0]} ({sizes[-1][1]})"),
        ("files over 300 / 600 lines", f"{sum(n > 300 for n, _ in sizes)} / {sum(n > 600 for n, _ in sizes)}"),
        ("functions", str(len(functions))),
        (
            "median / longest function",
            f"{int(statistics.median(lengths))} / {lengths[-1]} ({functions[-1].module}.{functions[-1].name})",
        ),
        ("functions over 80 / 200 lines", f"{sum(n > 80 for n in lengths)} / {sum(n > 200 for n in lengths)}"),
        ("longest if/elif chain", f"{chain[0]} ({chain[1]})"),
        (
            "largest import cycle",
            (
                f"{len(cycles[0][0]) if cycles[0] else 0} modules, {len(cycles[1][0]) if cycles[1] else 0} "
                f"with imports in functions and for annotations"
            ),
        ),
        ("imports inside functions", str(sum(e.inside and not e.for_types for e in package.edges))),
        (
            "sys.version_info",
            (
                f"{text.count('sys.version_info')} in "
                f"{sum('sys.version_info' in m.text for m in package.modules.values())} files"
            ),
        ),
        ("C++ lines", str(sum(p.read_text(encoding="utf8").count("\n") for p in native))),
    ]


def main(folder: str, name: str, native: str = "") -> None:
    files = sorted([*Path(native).glob("*.cpp"), *Path(native).glob("*.h")]) if native else []
    for label, value in figures(Package(Path(folder), name), files):
        print(f"{label:32} {value}")


if __name__ == "__main__":
    main(*sys.argv[1:])
