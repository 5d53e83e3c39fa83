"""Names the C callables of the standard library that no table judges, under an interpreter that has no torch and no
native core.

    python tests/bytecode/twin_support/tables.py MODULE ...

Torch, numpy and the core are empty stand-ins: the tables for Python itself need nothing of them.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[3] / "src" / "framelift"


class Empty(types.ModuleType):
    """A module that has every name."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        absent = name.split(".")[0] in ("torch", "numpy") or name in (
            "framelift._core",
            "framelift.boundary.becomes.containers",
        )
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if absent else None

    def create_module(self, spec: Any) -> Any:
        return Empty(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


def package(name: str, *folders: str) -> None:
    made = types.ModuleType(name)
    made.__path__ = [str(SOURCE.joinpath(*folders))]
    sys.modules[name] = made


def is_python_class(cls: type) -> bool:
    """As near as Python code can tell: made on the heap, with what a class statement leaves."""
    return (
        bool(cls.__flags__ & 1 << 9)
        and "__module__" in vars(cls)
        and any(name in vars(cls) for name in ("__dict__", "__slots__", "__weakref__"))
    )


def reachable(path: str, value: Any, seen: set[int], is_c: Any) -> Iterator[tuple[str, Any]]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, type):
        if not is_python_class(value):
            yield path, value
            for name, member in list(vars(value).items()):
                yield from reachable(f"{path}.{name}", getattr(member, "__func__", member), seen, is_c)
    elif is_c(value):
        yield path, value


def main(modules: list[str]) -> int:
    sys.meta_path.insert(0, Finder())
    package("framelift")
    for folder in ("boundary", "calls"):
        package(f"framelift.{folder}", folder)
    core = importlib.import_module("framelift._core")
    core.same_c_type = lambda one, other: False  # type: ignore[attr-defined]
    core.is_a = isinstance  # type: ignore[attr-defined]
    core.id = id  # type: ignore[attr-defined]
    importlib.import_module("torch.nn.modules.module").__file__ = ""
    pure = importlib.import_module("framelift.calls.pure.lookup")
    is_c = importlib.import_module("framelift.calls.pure.words").is_c_callable
    seen: set[int] = set()
    found = [
        row
        for name in modules
        for key, value in list(vars(importlib.import_module(name)).items())
        for row in reachable(f"{name}.{key}", value, seen, is_c)
    ]
    silent = [path for path, value in found if not pure.verdict(value)]
    print(len(found), *silent)
    return 1 if silent or len(found) < 2000 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
