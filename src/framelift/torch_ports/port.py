"""Ports: private parts of torch that framelift uses, each declared once and found at its first use.

An area (a module of this package) lists its ports.  Importing a name from the area finds it in the torch that is
running.  Where this torch has no such part, the port gives what is declared in its place, or a `MissingStub`: an object
that raises `MissingPart`, with one sentence, as soon as it is used.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module  # by its name: a program may replace it
from typing import Any

from ..exc import FrameliftError


class MissingPart(FrameliftError, AttributeError):
    """The torch that is running lacks a private part that framelift uses here.  In a rehearsal it is a graph break."""


_RAISES: Any = object()
A_CLASS: Any = object()  # in place of a class that is missing: one that nothing is an instance of
AN_ERROR: Any = object()  # in place of an exception that is missing: one that nothing raises


@dataclass(frozen=True, slots=True)
class Port:
    """One private part of torch.

    `path` is "module:attribute" or "module".  `use` completes "framelift needs it to ...", and "without it, framelift
    cannot ...".  `lost` is what a program then goes without.
    """

    name: str
    path: str
    use: str
    lost: str = ""  # empty: what the area says
    others: tuple[str, ...] = ()  # paths that other torch versions have it under, tried in this order
    instead: Any = _RAISES  # what takes its place in a torch that has it under none of them
    variable: bool = False  # a module's variable that torch rebinds: a `ModuleVariable`, read and written at each use
    loaded: str = ""  # names of a module that is read where something has loaded it: a `LoadedModule`
    versions: str = ""  # the torch versions that have it, where not all supported ones do

    def sentence(self) -> str:
        """Return the sentence that a user reads where this torch does not have it."""
        import torch

        return f"torch {torch.__version__} has no {self.path.replace(':', '.')}, so framelift cannot {self.use}"


def parts(module: str, use: str, names: str, lost: str = "", versions: str = "") -> tuple[Port, ...]:
    """Return the ports of parts of one module that framelift needs for one thing.

    A port has the name of its part, without underscores around it; `name=part` is another name, and `name=` the module.
    Where a class or an exception is missing, by the form of its name, a class takes its place.
    """
    rows = []
    for item in names.split():
        given, is_other, part = item.rpartition("=")
        last = part.rpartition(".")[2].strip("_")
        is_class = last[:1].isupper() and not last.isupper()
        instead = AN_ERROR if last.endswith(("Error", "Exception")) else A_CLASS if is_class else _RAISES
        path = f"{module}:{part}" if part else module
        rows.append(Port(given if is_other else last, path, use, lost, instead=instead, versions=versions))
    return tuple(rows)


class ModuleVariable:
    """A variable of a module, which torch binds to other values."""

    __slots__ = ("_module", "_name")

    def __init__(self, module: Any, name: str) -> None:
        self._module, self._name = module, name

    def read(self) -> Any:
        """Return the variable's value now."""
        return getattr(self._module, self._name)

    def write(self, value: Any) -> None:
        """Bind the variable to another value."""
        setattr(self._module, self._name, value)


class LoadedModule:
    """A module of torch as far as something has loaded it: asking for it imports nothing."""

    __slots__ = ("_found", "_names", "_path")

    def __init__(self, path: str, names: str) -> None:
        self._path, self._names, self._found = path, names.split(), None

    def get(self) -> Any:
        """Return the module; None where it is not loaded, or lacks one of the names that framelift reads."""
        module: Any = sys.modules.get(self._path)
        if module is not self._found and all(hasattr(module, name) for name in self._names):
            self._found = module
        return module if module is self._found else None


class MissingStub:
    """Stands for a part that this torch does not have: each use raises `MissingPart`; nothing is an instance of it."""

    __slots__ = ("_port",)

    def __init__(self, port: Port) -> None:
        object.__setattr__(self, "_port", port)

    def __bool__(self) -> bool:
        return False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise MissingPart(self._port.sentence())

    def __getattr__(self, name: str) -> Any:  # also what Python itself looks up: it is an AttributeError
        raise MissingPart(self._port.sentence())

    def __setattr__(self, name: str, value: Any) -> None:
        raise MissingPart(self._port.sentence())

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __instancecheck__(self, instance: Any) -> bool:
        return False


class _NoSuchClass(type):
    """The class of classes that this torch does not have: making an instance, or reading an attribute, raises."""

    _port: Port

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise MissingPart(cls._port.sentence())

    def __getattr__(cls, name: str) -> Any:
        raise MissingPart(cls._port.sentence())


def _no_such_class(port: Port) -> type:
    base = Exception if port.instead is AN_ERROR else object
    return _NoSuchClass(port.name, (base,), {"_port": port, "__module__": __name__})


class Area:
    """The ports of one topic, by name."""

    def __init__(self, about: str, lost: str, rows: Sequence[Port]) -> None:
        self.about, self.lost = about, lost
        self.ports = {port.name: port for port in rows}
        assert len(self.ports) == len(rows)

    def find(self, name: str) -> Any:
        """Return what a port leads to in the running torch."""
        port = self.ports.get(name)
        if port is None:
            raise AttributeError(f"no port is named {name!r}")
        if port.loaded:
            return LoadedModule(port.path, port.loaded)
        for path in (port.path, *port.others):
            found = _at(path, port.variable)
            if found is not _RAISES:
                return found
        if port.instead is A_CLASS or port.instead is AN_ERROR:
            return _no_such_class(port)
        return MissingStub(port) if port.instead is _RAISES else port.instead

    def has(self, name: str) -> bool:
        """Return True where the running torch has one of the port's parts."""
        port = self.ports[name]
        if port.loaded:
            return all(_at(f"{port.path}:{part}", False) is not _RAISES for part in port.loaded.split())
        return any(_at(path, port.variable) is not _RAISES for path in (port.path, *port.others))


def _at(path: str, variable: bool) -> Any:
    module_name, _, names = path.partition(":")
    try:
        found: Any = import_module(module_name)
    except ImportError:
        return _RAISES
    *owners, last = names.split(".")
    for name in owners:
        found = getattr(found, name, _RAISES)
    if not last or found is _RAISES:
        return found
    value = getattr(found, last, _RAISES)
    return ModuleVariable(found, last) if variable and value is not _RAISES else value


def function_of_c(name: str) -> Any:
    """Return torch._C's function of a name; None where this torch has none."""
    return getattr(import_module("torch._C"), name, None)


AREAS: dict[str, Area] = {}


def area(module: dict[str, Any], lost: str, *rows: Port | tuple[Port, ...]) -> Callable[[str], Any]:
    """Return the `__getattr__` of an area's module: each name is found once, and is the module's own from then on."""
    short = module["__name__"].rpartition(".")[2]
    flat: list[Any] = [port for row in rows for port in (row if type(row) is tuple else (row,))]
    made = AREAS[short] = Area(module["__doc__"], lost, flat)

    def find(name: str) -> Any:
        found = module[name] = made.find(name)
        return found

    return find


def ports() -> Iterator[tuple[str, Port, bool]]:
    """Yield each port with its area, and True where the running torch has it."""
    for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
        import_module(f"{__package__}.{module.name}")
    for name, one in AREAS.items():
        for port in one.ports.values():
            yield name, port, one.has(port.name)
