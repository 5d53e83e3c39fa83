"""Private parts of torch: named in the ports alone, found in the torch that runs, and missed without a wrong result."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from framelift.torch_ports import port as ports

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "framelift"
CHILD = Path(__file__).with_name("without_a_part.py")
NAMES = [f"{area}.{one.name}" for area, one, _ in ports.ports()]
#: a part of all, of every area, in each run; all of them: `python tests/torch_ports/without_a_part.py`
SOME = NAMES[::49]


def _is_private(path: str) -> bool:
    return path.startswith("torch.") and re.search(r"\._(?!_)\w", path) is not None


def _named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each private part of torch that a module names in its code, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"torch(\.\w+)+", text := ast.unparse(node)):
            yield node.lineno, text
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def test_private_parts_are_named_in_the_ports_alone() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "torch_ports"
        for line, name in _named(ast.parse(path.read_text()))
        if _is_private(name)
    ]
    assert not found, "\n".join(found)


def test_modules_of_torch_are_asked_for_in_the_ports_alone() -> None:
    """`sys.modules.get("torch...")`, `sys.modules["torch..."]`, `import_module("torch...")`."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())) if path.parent.name != "torch_ports" else ():
            given = node.args if isinstance(node, ast.Call) else [node.slice] if isinstance(node, ast.Subscript) else []
            asked = given[0] if given else None
            if isinstance(asked, ast.Constant) and isinstance(asked.value, str) and _is_private(asked.value):
                if re.match(r"sys\.modules\b|(importlib\.)?import_module\b", ast.unparse(node)):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno} {asked.value}")
    assert not found, "\n".join(found)


#: names that are no parts of torch: a name of framelift's own, and files with tests of their own
_OWN_NAMES = {"torch._dynamo.framelift"}
_TESTED_ELSEWHERE = {"compatibility.py", "patches.py"}


def test_names_of_torch_in_texts_lead_somewhere() -> None:
    """Modules and parts that are compared by name: a new torch that moves one would go unnoticed."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.value}"
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "torch_ports" and path.name not in _TESTED_ELSEWHERE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in _OWN_NAMES
        if re.fullmatch(r"torch(\.\w*[a-zA-Z])+", node.value) and _is_private(node.value)
        if not _is_there(node.value)
    ]
    assert not wrong, "\n".join(wrong)


def _is_there(path: str) -> bool:
    """Return whether a dotted path leads to a module or a part of one."""
    found, names = torch, path.split(".")
    for count, name in enumerate(names[1:], 2):
        if not hasattr(found, name):
            try:
                importlib.import_module(".".join(names[:count]))
            except ImportError:
                return False
        found = getattr(found, name, None) or sys.modules[".".join(names[:count])]
    return True


def test_every_part_is_found_or_its_versions_are_declared() -> None:
    missing = [f"{area}.{one.name}" for area, one, has in ports.ports() if not has and not one.versions]
    assert not missing, f"torch {torch.__version__} has none of these: declare what takes their place, and `versions`"


def test_every_port_is_used() -> None:
    """In other packages, or in the functions of an area that hide a difference between versions."""
    outside, inside = "", ""
    for path in SOURCE.rglob("*.py"):
        if path.parent.name != "torch_ports":
            outside += path.read_text()
        else:
            inside += path.read_text().partition("\n)\n")[2] if path.name != "port.py" else ""
    used = set(re.findall(r"\w+", outside)) | set(re.findall(r'"(\w+)"', inside))
    assert not [name for name in NAMES if name.partition(".")[2] not in used]


def test_every_port_says_what_for_and_what_is_lost() -> None:
    for area, one, _ in ports.ports():
        assert one.use and (one.lost or ports.AREAS[area].lost), f"{area}.{one.name}"
        assert ":" not in one.path.partition(":")[2], one.path


def test_a_missing_part_answers_with_one_sentence() -> None:
    area = ports.Area("", "", (ports.Port("part", "torch:_no_such_part", "do this", "that"),))
    part = area.find("part")
    assert not part and not isinstance(torch, part)
    for use in (lambda: part(1), lambda: part.attribute):
        with pytest.raises(ports.MissingPart, match=r"has no torch\._no_such_part, so framelift cannot do this"):
            use()
    kind = ports.Area("", "", (ports.Port("kind", "torch:_no_such_part", "do this", instead=ports.A_CLASS),)).find(
        "kind"
    )
    assert isinstance(kind, type) and not isinstance(torch, kind)
    with pytest.raises(ports.MissingPart, match="cannot do this"):
        kind()


def test_loaded_modules_are_read_where_all_their_names_are_there(monkeypatch) -> None:
    row = ports.Port("one", "torch._dynamo.no_such_module", "read it", loaded="first second")
    area = ports.Area("", "", (row,))
    one = area.find("one")
    assert one.get() is None and not area.has("one")
    monkeypatch.setitem(sys.modules, row.path, module := types.ModuleType(row.path))
    module.first = 1
    assert one.get() is None
    module.second = 2
    assert one.get() is module and area.has("one")


def test_places_are_read_and_written_at_each_use() -> None:
    rows = (ports.Port("flag", "torch.compiler:_is_compiling_flag", "know it", variable=True),)
    flag = ports.Area("", "", rows).find("flag")
    assert flag.read() is False
    flag.write(True)
    try:
        assert torch.compiler.is_compiling()
    finally:
        flag.write(False)
    assert not torch.compiler.is_compiling()


def test_programs_are_right_without_a_part() -> None:
    """One child per part: results are eager's, and no defect of framelift is reported; or one sentence refuses."""
    done = subprocess.run([sys.executable, str(CHILD), *SOME], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    answers = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert list(answers) == SOME
    wrong = {name: answer for name, answer in answers.items() if not re.match("right|refused: torch ", answer)}
    assert not wrong


#: public modules of torch that the oldest version lacks
NEWER = {"torch.fx.experimental.dynamic_spec"}


@pytest.mark.parametrize("module", NEWER)
def test_a_module_that_the_oldest_torch_lacks_is_imported_where_it_is_used(module: str) -> None:
    importing = [
        str(path.relative_to(ROOT))
        for path in SOURCE.rglob("*.py")
        if any(isinstance(node, ast.ImportFrom) and node.module == module for node in ast.parse(path.read_text()).body)
    ]
    assert not importing
