"""What framelift replaces in torch and in Python is in one table (docs/internals/patches.md), all of it and no more."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import framelift

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(framelift.__file__).parent


class Patch(NamedTuple):
    """One thing that is replaced: a row of the page."""

    place: str  # its full name
    file: str  # where that is done, below src/framelift or in csrc
    when: str
    versions: str  # of torch, or of CPython, that it is for; elsewhere nothing is replaced
    why: str


PAGE = (ROOT / "docs" / "internals" / "patches.md").read_text(encoding="utf8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
PATCHES = [Patch(row[0].strip("`"), row[1].strip("`").removeprefix("src/framelift/"), *row[2:]) for row in ROWS]

#: attributes of torch and Python that are settings or state: they are read, written and put back
STATE = {
    "backends/compile_worker.py": {"fill_uninitialized_memory"},
    "backends/surroundings.py": {"tracing_context"},
    "capture/records/compile_ids.py": {"_is_compiling_flag", "compile_context"},
    "exits/entry.py": {"atexit"},
    "graph/fx/tape.py": {"atexit"},
    "overriding/hook_numbers.py": {"next_id"},
    "overriding/modes.py": {"device_context"},
    "surface/cli.py": {"argv"},
    "vocabulary/torch_versions.py": {"_is_fx_tracing_flag"},  # put back as it was
    "config.py": {"__class__"},  # of our own module
    "export/__init__.py": {"__class__"},
}


def test_each_row_is_true() -> None:
    """The file is there, and names what it replaces."""
    assert len({one.place for one in PATCHES}) == len(PATCHES)
    for one in PATCHES:
        path = ROOT / one.file if one.file.startswith("csrc/") else SOURCE / one.file
        name = one.place.split(": ")[0].rpartition(".")[2] if ": " not in one.place else one.place
        words = [word for word in ("__dynamo_disable", "__setattr__", "__class__", "__dict__") if word in name] or [
            name
        ]
        assert all(word in path.read_text(encoding="utf8") for word in words), one


def test_no_other_file_replaces_anything() -> None:
    """Assignments to attributes of what a module imports from elsewhere."""
    known = {one.file for one in PATCHES}
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        for attribute, line in _written(ast.parse(path.read_text(encoding="utf8"))):
            if place not in known and attribute not in STATE.get(place, ()):
                wrong.append(f"{place}:{line}: {attribute}")
    assert not wrong, f"add a row to docs/internals/patches.md: {', '.join(wrong)}"


def _written(tree: ast.Module) -> list[tuple[str, int]]:
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not getattr(node, "level", 0)
        for alias in node.names
    }
    found = []
    for node in ast.walk(tree):
        targets = (
            node.targets
            if isinstance(node, (ast.Assign, ast.Delete))
            else [node.target]
            if isinstance(node, (ast.AugAssign, ast.AnnAssign))
            else []
        )
        for target in targets:
            base = target
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(target, ast.Attribute) and isinstance(base, ast.Name) and base.id in imported:
                found.append((target.attr, node.lineno))
    return found


#: prints what is another object after framelift did its work than before
PROGRAM = textwrap.dedent("""
    import sys, torch, torch._inductor.codegen.cpp, torch._inductor.cpu_vec_isa, torch._inductor.codegen.wrapper
    import torch._functorch._aot_autograd.autograd_cache, torch._inductor.compile_fx, torch.export
    import torch._higher_order_ops.invoke_subgraph

    def all_functions():
        found = {}
        loaded = list(sys.modules.items())
        for module in [one for name, one in loaded if name.partition(".")[0] in ("torch", "builtins")]:
            for name, value in list(vars(module).items()):
                if callable(value):
                    found[f"{module.__name__}.{name}"] = value
                if isinstance(value, type) and value.__module__ == module.__name__:
                    found.update((f"{module.__name__}.{name}.{one}", each) for one, each in list(vars(value).items())
                                 if callable(each) or isinstance(each, (staticmethod, classmethod, property)))
        return found

    before = all_functions()
    import framelift
    compiled = framelift.compile(lambda x: x.sin().softmax(0).sum(), backend="aot_eager")
    compiled(torch.ones(3, requires_grad=True)).backward()
    from framelift.backends import raising_kernels, vector_instructions, warm_start
    raising_kernels.install(), vector_instructions.try_only_the_best(), warm_start._watch()
    after = all_functions()
    for name, value in before.items():
        if after.get(name) is not value and type(value).__name__ not in ("DeviceMesh",):
            print(name)
""")


def test_a_process_has_the_replacements_of_the_table() -> None:
    """All functions of torch that are others after a compile are in the table, and what the table says for good is."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for_good = {one.place for one in PATCHES if one.when.endswith("for the process") and one.place.startswith("torch.")}
    optional = {"torch._inductor.codegen.cpp.CppKernel.device_assert_async"}
    found = set(done.stdout.split())
    assert found <= for_good and for_good - found <= optional
