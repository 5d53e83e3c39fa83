"""Import statements of captured code against changes of what they look at: as in plain Python."""

from __future__ import annotations

import builtins
import importlib
import sys
import types

import pytest
import torch

import framelift

PROGRAMS = {
    "import": "def f(x):\n import law_single\n return x + law_single.v",
    "from": "def f(x):\n from law_single import v\n return x + v",
    "from a package": "def f(x):\n from law_package import sub\n return x + sub.v",
    "dotted": "def f(x):\n import law_package.sub\n return x + law_package.sub.v",
    "dotted as": "def f(x):\n import law_package.sub as sub\n return x + sub.v",
    "a call": "def f(x):\n return x + __import__('law_single').v",
    "import_module": "def f(x):\n return x + importlib.import_module('law_single').v",
    "missing": "def f(x):\n try:\n  import law_none\n except ImportError:\n  return x - 1\n return x + law_none.v",
    "lazy": "def f(x):\n from law_single import lazy\n return x + lazy",
    "called": "def g():\n import law_single\n return law_single.v\ndef f(x):\n return x + g()",
}


def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(members)
    return made


OTHER = types.SimpleNamespace(v=100, lazy=3, sub=types.SimpleNamespace(v=70))
_PLAIN = builtins.__import__


def other_import(name, *rest):
    return OTHER if name.startswith("law_") else _PLAIN(name, *rest)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, Finder) if name.startswith("law_") else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(made):
        made.v, made.lazy = 55, 2


def lazily(space):
    if sys.modules.get("law_single") is not None:
        sys.modules["law_single"].__getattr__ = lambda name: 21


CHANGES = {
    "__import__": lambda space: setattr(builtins, "__import__", other_import),
    "__import__ again": lambda space: setattr(builtins, "__import__", _PLAIN),
    "builtins": lambda space: space.update(__builtins__={**vars(builtins), "__import__": other_import}),
    "another module": lambda space: module("law_single", v=9, lazy=4),
    "another part": lambda space: module("law_package.sub", v=9),
    "another package": lambda space: module("law_package", __path__=[], sub=OTHER),
    "removed": lambda space: sys.modules.pop("law_single", None),
    "forbidden": lambda space: sys.modules.update(law_single=None),
    "part removed": lambda space: sys.modules.pop("law_package.sub", None),
    "a finder": lambda space: sys.meta_path.insert(0, Finder),
    "import_module": lambda space: setattr(importlib, "import_module", lambda name: OTHER),
    "lazy attributes": lazily,
}


def outcomes(program, changes, wrap):
    """What the program gives before and after each change."""
    finders, import_module = list(sys.meta_path), importlib.import_module
    module("law_single", v=1)
    module("law_package", __path__=[], sub=module("law_package.sub", v=7))
    space = {"__name__": "law_program", "__builtins__": builtins, "importlib": importlib}
    exec(program, space)
    function, found = wrap(space["f"]), []
    try:
        for change in (*changes, None):
            try:
                found.append(function(torch.zeros(1)).item())
            except Exception as error:  # noqa: BLE001  compared
                found.append((type(error), str(error)))
            if change is not None:
                change(space)
    finally:
        builtins.__import__, sys.meta_path[:], importlib.import_module = _PLAIN, finders, import_module
        for name in [name for name in sys.modules if name.startswith("law_")]:
            del sys.modules[name]
    return found


@pytest.mark.parametrize("first", CHANGES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_two_changes(program, first):
    for second in ("__import__ again", "another module", "part removed", "removed"):
        changes = CHANGES[first], CHANGES[second]
        plainly = outcomes(PROGRAMS[program], changes, lambda function: function)
        assert outcomes(PROGRAMS[program], changes, lambda f: framelift.compile(f, backend="eager")) == plainly


def test_an_import_is_no_reason_to_compile_again():
    def program(x):
        import os.path

        return x + len(os.path.sep)

    captured = framelift.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        captured(torch.zeros(1))
    assert len(captured.entries) == 1
