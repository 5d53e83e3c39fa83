"""Draws the pictures of docs/design.md: the packages with their imports, and the way of one call through them.

    python tools/architecture.py     writes docs/pictures/packages.svg and docs/pictures/one_call.svg

The first picture is made from the imports in the source, so it cannot show a layout that is not there.  An arrow that
follows from others is left out: A -> C is not drawn where A -> B -> C is.  tests/project/test_architecture.py fails
when a picture is not current.
"""

from __future__ import annotations

import ast
import functools
import html
import re
from dataclasses import dataclass
from pathlib import Path

from layout_figures import Package

__all__ = ["ROOT", "STATIONS", "Station", "defines", "direct_imports", "own_imports", "pictures"]

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
SOURCE = ROOT / "src" / "framelift"
NATIVE = "csrc"

Graph = dict[str, set[str]]


@dataclass(frozen=True)
class Station:
    """One of the functions that a call passes: in which file, under which name, and what it does there."""

    path: str  # from the root of the repository
    function: str
    does: str

    @property
    def package(self) -> str:
        return self.path.removeprefix("src/framelift/").split("/")[0]


#: the way of one call; docs/internals/follow_one_call.md explains each of them
STATIONS = {
    "every call": [
        Station("src/framelift/surface/compiling.py", "compile", "makes the callable, once"),
        Station("csrc/entries.cpp", "try_entries", "checks guards and runs the entry that fits"),
    ],
    "no entry fits: rehearse the frame": [
        Station("src/framelift/capture/driver.py", "Driver.capture", "asks limits, then starts a rehearsal"),
        Station("src/framelift/bytecode/maker.py", "make_twin", "copies the code, with probes"),
        Station("src/framelift/boundary/gateway.py", "let_in", "imports an external value, with guards"),
        Station("src/framelift/rehearsal/call_rule.py", "classify", "decides what a call becomes"),
        Station("src/framelift/recording/recorder.py", "TapeRecorder.record", "records a torch call, gives stand-ins"),
    ],
    "build an entry, and try again": [
        Station("src/framelift/exits/entry.py", "plan_return", "plans results and effects as source"),
        Station("src/framelift/backends/registry.py", "compile_graph", "hands the FX graph to the backend"),
        Station("src/framelift/guards/native_program.py", "build_program", "makes one native program of the guards"),
    ],
}


def defines(path: Path, name: str) -> bool:
    """Whether a file defines `name`: a function, class, method (`Class.method`) or variable; in C++ a function."""
    text = path.read_text(encoding="utf8")
    if path.suffix != ".py":
        return re.search(rf"(?:^|[\s*&:]){re.escape(name.split('::')[-1])}\s*(?:\(|\{{|\[|=|<|:)", text) is not None
    found: list[ast.AST] = [ast.parse(text)]
    for part in name.split("."):
        found = [child for node in found for child in ast.iter_child_nodes(node) if part in _names(child)]
    return bool(found)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


def direct_imports(package: Package) -> Graph:
    """Which package imports which, without imports that follow from others; the native core is one of them."""
    every: Graph = {}
    for module in package.modules.values():
        part = _part(module.name, package)
        for one in module.imports() if part else ():
            if one.for_types:
                continue
            target = package.own(one.imported)
            core = any(one.imported == n or one.imported.startswith(n + ".") for n in package.native)
            found = NATIVE if core else _part(target, package) if target else ""
            every.setdefault(part, set()).update({found} - {part, ""})
    every.setdefault(NATIVE, set())
    return {
        part: {low for low in below if not any(low in _below(every, other) for other in below - {low})}
        for part, below in every.items()
    }


def _part(module: str, package: Package) -> str:
    """The folder of the package that a module is in; "" for modules at the top."""
    name = module.removeprefix(package.name).lstrip(".").split(".")[0]
    folder = package.modules.get(f"{package.name}.{name}")
    return name if name and folder is not None and folder.is_package else ""


def _below(graph: Graph, part: str) -> set[str]:
    found: set[str] = set()
    for low in graph[part]:
        found |= {low} | _below(graph, low)
    return found


# --- the picture of the packages --------------------------------------------------------------------------------------

WIDE, HIGH, ACROSS, DOWN, MARGIN, LANES = 120, 30, 30, 34, 16, 18


def _levels(graph: Graph) -> dict[str, int]:
    """How far below the top each package is: one level below the lowest package that imports it."""
    level: dict[str, int] = {}

    def place(part: str) -> int:
        if part not in level:
            level[part] = max((place(high) + 1 for high in graph if part in graph[high]), default=0)
        return level[part]

    for part in graph:
        place(part)
    return level


def packages_svg(graph: Graph) -> str:
    """Packages in rows, one row for each level.  Arrows over several levels run in lanes of their own at the left."""
    level = _levels(graph)
    long = sorted(
        ((part, low) for part in graph for low in graph[part] if level[low] > level[part] + 1),
        key=lambda edge: (level[edge[0]], edge),
    )
    lane = {edge: MARGIN + LANES * (number + 0.5) for number, edge in enumerate(long)}
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for part in sorted(graph, key=lambda part: (part not in {high for high, _ in long}, part)):
        rows[level[part]].append(part)
    widest = max(map(len, rows)) * (WIDE + ACROSS)
    middle: dict[str, float] = {}
    for row in rows:
        left = MARGIN + LANES * len(long) + (widest - len(row) * (WIDE + ACROSS)) / 2
        middle.update({part: left + (number + 0.5) * (WIDE + ACROSS) for number, part in enumerate(row)})
    top = {part: MARGIN + number * (HIGH + DOWN) for part, number in level.items()}
    drawn = []
    for part in sorted(graph):
        for low in sorted(graph[part]):
            x = lane.get((part, low))
            between = [(x, top[part] + HIGH + DOWN), (x, top[low] - DOWN)] if x is not None else []
            drawn.append(_arrow([(middle[part], top[part] + HIGH), *between, (middle[low], top[low] - 3)]))
    drawn += [
        _box(middle[part] - WIDE / 2, top[part], WIDE, HIGH, part, "core" if part == NATIVE else "box")
        for part in sorted(graph)
    ]
    height = len(rows) * (HIGH + DOWN) - DOWN + 2 * MARGIN
    return _svg(
        2 * MARGIN + LANES * len(long) + widest,
        height,
        "Packages of framelift; an arrow points to what is imported",
        drawn,
    )


# --- the picture of one call ------------------------------------------------------------------------------------------

LANE, STEP = 300, 64


def one_call_svg() -> str:
    """Three columns of functions; arrows lead from each to the next, and from the last column back to the first."""
    drawn: list[str] = []
    number = 0
    places: list[list[tuple[float, float]]] = []
    most = max(map(len, STATIONS.values()))
    for column, (title, stations) in enumerate(STATIONS.items()):
        left = MARGIN + column * (LANE + ACROSS)
        drawn.append(f'<rect class="lane" x="{left}" y="{MARGIN}" width="{LANE}" height="{most * STEP + 44}" rx="8"/>')
        drawn.append(_text(left + LANE / 2, MARGIN + 20, title, "title"))
        places.append([])
        for row, station in enumerate(stations):
            number += 1
            y = MARGIN + 36 + row * STEP
            drawn.append(_box(left + 12, y, LANE - 24, STEP - 16, "", "box"))
            drawn.append(_text(left + LANE / 2, y + 20, f"{number}  {station.package}: {station.function}", "name"))
            drawn.append(_text(left + LANE / 2, y + 38, station.does, "small"))
            places[-1].append((left, y))
            if row:
                drawn.append(_arrow([(left + LANE / 2, y - 16), (left + LANE / 2, y - 3)]))
    middle = (STEP - 16) / 2
    for before, after in zip(places, places[1:]):
        left, y = before[-1]
        x, start = left + LANE - 12, y + middle
        drawn.append(
            _arrow(
                [(x, start), (x + 26, start), (x + 26, after[0][1] + middle), (after[0][0] + 9, after[0][1] + middle)],
                straight=True,
            )
        )
    (x, y), (back, low), foot = places[-1][-1], places[0][1], MARGIN + most * STEP + 44 + 14
    drawn.append(
        _arrow(
            [
                (x + LANE / 2, y + STEP - 16),
                (x + LANE / 2, foot),
                (back + LANE / 2, foot),
                (back + LANE / 2, low + STEP - 13),
            ],
            straight=True,
        )
    )
    height = foot + MARGIN
    return _svg(
        2 * MARGIN + len(STATIONS) * (LANE + ACROSS) - ACROSS, height, "The way of one call through the packages", drawn
    )


# --- pieces of SVG ----------------------------------------------------------------------------------------------------

_STYLE = """
    text { font-family: sans-serif; font-size: 14px; text-anchor: middle; fill: #1d2733 }
    .small { font-size: 12px; fill: #4a5866 }
    .title { font-weight: bold; fill: #4a5866 }
    .name { font-weight: bold }
    .paper { fill: #ffffff }
    .lane { fill: #f3f5f8; stroke: #d4dae1 }
    .box { fill: #e3edfb; stroke: #5b83b8 }
    .core { fill: #fbe9dc; stroke: #c2824a }
    path { fill: none; stroke: #8593a3; stroke-width: 1.4; marker-end: url(#head) }
    #head path { fill: #8593a3; stroke: none; marker-end: none }
"""


def _svg(width: float, height: float, title: str, drawn: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img">\n'
        f"  <title>{html.escape(title)}</title>\n  <!-- drawn by tools/architecture.py -->\n"
        f"  <style>{_STYLE}  </style>\n"
        '  <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>\n  <rect class="paper" width="100%" height="100%"/>\n'
    )
    return head + "".join(f"  {line}\n" for line in drawn) + "</svg>\n"


def _box(x: float, y: float, width: float, height: float, text: str, kind: str) -> str:
    shape = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>'
    return shape + (_text(x + width / 2, y + height / 2 + 5, text, "name") if text else "")


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{html.escape(text)}</text>'


def _arrow(points: list[tuple[float, float]], straight: bool = False) -> str:
    (x, y), path = points[0], [f"M{points[0][0]:g} {points[0][1]:g}"]
    for to, down in points[1:]:
        half = (y + down) / 2
        path.append(f"L{to:g} {down:g}" if straight or to == x else f"C{x:g} {half:g} {to:g} {half:g} {to:g} {down:g}")
        x, y = to, down
    return f'<path d="{" ".join(path)}"/>'


@functools.cache
def own_imports() -> Graph:
    """framelift's own packages."""
    return direct_imports(Package(SOURCE, "framelift"))


def pictures() -> dict[Path, str]:
    """Every picture as it should be."""
    return {PICTURES / "packages.svg": packages_svg(own_imports()), PICTURES / "one_call.svg": one_call_svg()}


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for path, text in pictures().items():
        path.write_text(text, encoding="utf8")
