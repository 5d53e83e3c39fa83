"""How a repro file comes by its backend: a registered name, an import, or what a script defines."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any

from .._core import is_a
from ..backends.registry import parts_of
from ..vocabulary.own_code import FRAMELIFT
from ..vocabulary.places import is_library


def backend_lines(name: str, compiler: Any) -> str:
    """Lines that define BACKEND as the backend that compiled a graph, in a process that knows nothing of this one."""
    inner, bound = parts_of(compiler)
    rows, expression = _found(name, inner)
    if bound and expression != "None":
        rows = ["import functools", "import framelift", *rows]
        arguments = ", ".join(f"{key}={value!r}" for key, value in bound.items())
        expression = f"functools.partial(framelift.lookup_backend({expression}), {arguments})"
    return "\n".join([*rows, f"BACKEND = {expression}"]) + "\n"


def _found(name: str, inner: Any) -> tuple[list[str], str]:
    module, path = getattr(inner, "__module__", None), getattr(inner, "__qualname__", "")
    loaded = sys.modules.get(module or "")
    file = getattr(loaded, "__file__", None) or ""
    if inner is None or is_library(file) or file.startswith(FRAMELIFT):
        return [], repr(name)  # torch's, framelift's, or an installed package's, which registers it
    if getattr(loaded, path, None) is not inner:
        about = f"{name} ({path} of {module})"
        return [f"# The backend was {about}, which no other process finds: define it here."], "None"
    if module == "__main__":
        return ["from framelift.report.repro_backend import from_script"], f"from_script({file!r}, {path!r})"
    folder = os.path.dirname(file)
    for _ in range((module or "").count(".") + (os.path.basename(file) == "__init__.py")):
        folder = os.path.dirname(folder)
    return [f"sys.path.insert(0, {folder!r})", f"from {module} import {path}"], path


def from_script(file: str, name: str) -> Any:
    """Return the definition of a name in a script, of which only imports, functions, classes and constants are run."""
    tree = ast.parse(Path(file).read_text("utf-8"), file)
    tree.body = [statement for statement in tree.body if _defines(statement)]
    space: dict[str, Any] = {"__name__": "script", "__file__": file}
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    exec(compile(tree, file, "exec"), space)
    return space[name]


def _defines(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return True
        case ast.Assign(value=value) | ast.AnnAssign(value=value) if value is not None:
            return not any(is_a(node, (ast.Call, ast.Await, ast.Yield)) for node in ast.walk(value))
        case ast.Try(body=body):
            return all(is_a(one, (ast.Import, ast.ImportFrom)) for one in body)
    return False
