"""The layout's rules: imports go downwards only, files and functions stay small, TorchDynamo is not imported."""

from __future__ import annotations

import collections
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from layout_figures import Package, figures  # noqa: E402

#: The packages and top-level modules, lowest first.  A module may import only from its own package and from those
#: before it.
ORDER = [
    "_core",
    "vocabulary",
    "exc",
    "config",
    "torch_ports",
    "bytecode",
    "guards",
    "graph",
    "boundary",
    "recording",
    "calls",
    "higher_order",
    "overriding",
    "substitutes",
    "autograd",
    "rehearsal",
    "exits",
    "python",
    "cache",
    "capture",
    "backends",
    "report",
    "export",
    "packages",
    "surface",
    "testing",
    "pytest_plugin",
    "__main__",
    "",
]
LIMIT_FILE, LIMIT_FUNCTION, LIMIT_FOLDER = 600, 80, 27

#: The most lines of each package, of the modules beside them, and of the native core.  Their sum only falls: a change
#: that makes a package smaller lowers its number, and lines that move to another package move in this table, too.
BUDGETS = {
    "autograd": 1106,
    "backends": 4763,
    "boundary": 5280,
    "bytecode": 2632,
    "cache": 3296,
    "calls": 1220,
    "capture": 7756,
    "exits": 2371,
    "export": 2222,
    "graph": 8011,
    "guards": 969,
    "higher_order": 1497,
    "overriding": 1352,
    "packages": 1707,
    "python": 2907,
    "recording": 5170,
    "rehearsal": 1653,
    "report": 2436,
    "substitutes": 4193,
    "surface": 4683,
    "torch_ports": 843,
    "vocabulary": 2434,
    "modules beside them": 776,
    "csrc": 13800,
}
ALL = 83077
WITHOUT_TEST = 366  # source files without a test at their path
ROOM = 300  # a budget that is further above is lowered


@pytest.fixture(scope="module")
def package() -> Package:
    return Package(ROOT / "src" / "framelift", "framelift")


def layer(module: str) -> str:
    """The part of the package that a module belongs to; the package's own __init__ is the top."""
    return module.removeprefix("framelift").lstrip(".").split(".")[0]


def test_every_part_has_a_place_in_the_order(package: Package) -> None:
    unknown = {layer(m) for m in package.modules} - set(ORDER)
    assert not unknown


#: their methods give users objects of parts above
_TYPED_FOR_USERS = {"framelift.capture.module_wrapper"}


def test_imports_go_downwards(package: Package) -> None:
    """Imports for annotations alone (`if TYPE_CHECKING:`) count: who reads a file needs nothing above it."""
    wrong = []
    for edge in package.edges:
        low, high = layer(edge.imported), layer(edge.importer)
        # `from . import config` inside a part names the package itself; the part imported is what counts.
        if low == "" and edge.imported == "framelift":
            wrong.append(f"{edge.importer}:{edge.line} imports the package itself")
        elif ORDER.index(low) > ORDER.index(high) and not (edge.for_types and edge.importer in _TYPED_FOR_USERS):
            wrong.append(f"{edge.importer}:{edge.line} imports {edge.imported}")
    assert not wrong, "\n".join(wrong)


def test_no_import_cycle(package: Package) -> None:
    assert package.cycles() == []
    for cycle in package.cycles(with_types=True):  # neighbours that name each other's classes in annotations
        assert len(cycle) <= 3 and len({name.rpartition(".")[0] for name in cycle}) == 1, cycle


def test_bytecode_stands_alone(package: Package) -> None:
    """bytecode/ is tested on Pythons that have no torch, so it imports neither torch nor other parts."""
    for module in package.modules.values():
        if layer(module.name) == "bytecode":
            for one in module.imports():
                own = package.own(one.imported)
                assert own is None or layer(own) == "bytecode", f"{module.name}:{one.line} imports {one.imported}"
                assert one.imported.split(".")[0] != "torch", f"{module.name}:{one.line}"


def test_torchdynamo_is_not_imported(package: Package) -> None:
    for module in package.modules.values():
        for one in module.imports():
            assert not one.imported.startswith("torch._dynamo"), f"{module.name}:{one.line} imports {one.imported}"


#: packages that hold objects of the program, and modules of others that do
_MEET_OBJECTS = set(ORDER) - {
    "vocabulary",
    "exc",
    "config",
    "bytecode",
    "backends",
    "export",
    "surface",
    "testing",
    "pytest_plugin",
    "__main__",
    "",
}
_MEET_OBJECTS_TOO = {
    "framelift.vocabulary.origins",
    "framelift.surface.verify",
    "framelift.surface.explain",
    "framelift.surface.repro_files",
}


def test_isinstance_is_not_called_on_objects_of_the_program(package: Package) -> None:
    """isinstance() reads `__class__` of what it is given, which may be code of the program.

    `_core.is_a` looks at the type.
    """
    import ast

    calls = [
        f"{module.name}:{node.lineno}"
        for module in package.modules.values()
        if layer(module.name) in _MEET_OBJECTS or module.name in _MEET_OBJECTS_TOO
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    ]
    assert not calls, "use _core.is_a: " + ", ".join(calls)


def test_no_module_named_utils(package: Package) -> None:
    assert not [m for m in package.modules if "utils" in m.rpartition(".")[2]]


def test_sizes(package: Package) -> None:
    big = [f"{m.name}: {m.lines} lines" for m in package.modules.values() if m.lines > LIMIT_FILE]
    long = [
        f"{f.module}.{f.name}: {f.lines} lines"
        for m in package.modules.values()
        for f in m.functions
        if f.lines > LIMIT_FUNCTION
    ]
    big += [f"{p.name}: {n} lines" for p in (ROOT / "csrc").glob("*") if (n := p.read_text().count("\n")) > LIMIT_FILE]
    assert not big + long, "\n".join(big + long)


def _lines(package: Package) -> collections.Counter[str]:
    found = collections.Counter({"csrc": sum(p.read_text().count("\n") for p in (ROOT / "csrc").glob("*"))})
    for module in package.modules.values():
        part = layer(module.name)
        found[part if (ROOT / "src" / "framelift" / part).is_dir() and part else "modules beside them"] += module.lines
    return found


def test_packages_keep_to_their_budgets(package: Package) -> None:
    lines = _lines(package)
    assert set(lines) == set(BUDGETS) and sum(BUDGETS.values()) <= ALL
    over = [
        f"{part} has {lines[part]} lines, {lines[part] - most} over its budget: make it smaller, or move a budget to it"
        for part, most in BUDGETS.items()
        if lines[part] > most
    ]
    loose = [
        f"{part} has {lines[part]} lines only: lower its budget of {most} to {lines[part] + 20}"
        for part, most in BUDGETS.items()
        if lines[part] < most - ROOM
    ]
    assert not over + loose, "\n".join(over + loose)


def test_folders_are_small(package: Package) -> None:
    folders = collections.Counter(m.rpartition(".")[0] for m in package.modules)
    assert not {folder: count for folder, count in folders.items() if count > LIMIT_FOLDER}


def test_tests_mirror_the_packages() -> None:
    """A folder of tests for each package of the source; what looks at the whole project is in `project`."""
    packages = {name for name in ORDER if (ROOT / "src" / "framelift" / name / "__init__.py").exists() and name}
    folders = {file.parent.name for file in (ROOT / "tests").rglob("test_*.py")}
    assert folders - packages == {"project"}


def test_a_source_file_has_its_test_at_its_path(package: Package) -> None:
    """`graph/fx/tape.py` is tested by `tests/graph/test_tape.py`.  The number of files without one only falls."""
    parts = [name.removeprefix("framelift.").split(".") for name, one in package.modules.items() if not one.is_package]
    missing = [".".join(one) for one in parts if not (ROOT / "tests" / one[0] / f"test_{one[-1]}.py").exists()]
    assert len(missing) <= WITHOUT_TEST, f"a new file brings its test; without one are {', '.join(missing)}"


def test_names_of_test_files_are_unique() -> None:
    """pytest imports files of folders without `__init__.py` by their bare names, and refuses the second of two."""
    names = collections.Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_module_says_what_it_is_for(package: Package) -> None:
    import ast

    silent = [m.name for m in package.modules.values() if m.text.strip() and ast.get_docstring(m.tree) is None]
    assert not silent


def test_figures_can_be_printed(package: Package) -> None:
    rows = figures(package, sorted((ROOT / "csrc").glob("*.cpp")))
    for name, value in rows:
        print(f"{name:32} {value}")
    assert len(rows) == 11
