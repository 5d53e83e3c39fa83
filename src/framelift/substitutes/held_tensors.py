"""Tensors that a function declared to be one node reaches without being given them: parameters and buffers of modules,
variables of its closure, global variables.  They are inputs of the node, like the tensors it is given.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..boundary.gateway import let_in
from ..recording.session import Session
from ..torch_ports.tensors import reparametrize_module
from ..vocabulary.origins import Origin, const

# Captured code: not of framelift's own file.
_SPACE: dict[str, Any] = {}
exec(
    compile(
        "def tensors_of(module):\n    return [*module.named_parameters(), *module.named_buffers()]\n", "<held>", "exec"
    ),
    _SPACE,
)


class Held:
    """The tensors that a function, and modules among its arguments, hold.

    `tensors`: stand-ins; `inside`: variables made inside, too.
    """

    def __init__(self, session: Session, function: Any, modules: Sequence[Any], inside: bool) -> None:
        self.tensors: list[Any] = []
        self._session, self._function = session, function
        self._modules: list[tuple[Any, dict[str, int]]] = []  # names of parameters -> numbers of their tensors
        self._cells: dict[int, int] = {}  # number of a variable of the closure -> of its tensor
        self._globals: dict[str, int] = {}
        for module in modules:
            self._module(module)
        if inside and type(function) is types.FunctionType:
            self._look_inside(function)

    def _module(self, module: Any) -> None:
        if any(module is known for known, _ in self._modules):
            return
        found = _core.captured(_SPACE["tensors_of"], (module,), None)
        self._modules.append((module, {name: len(self.tensors) + i for i, (name, _) in enumerate(found)}))
        self.tensors += [tensor for _, tensor in found]

    def _look_inside(self, function: types.FunctionType) -> None:
        for i, cell in enumerate(function.__closure__ or ()):
            with contextlib.suppress(ValueError):  # not assigned yet
                number = self._take(cell.cell_contents, const(function).to("cell", i).to("contents"))
                if number is not None:
                    self._cells[i] = number
        space = function.__globals__
        for name in function.__code__.co_names:
            if name in space:
                number = self._take(space[name], const(space).to("item", name))
                if number is not None:
                    self._globals[name] = number

    def _take(self, value: Any, origin: Origin) -> int | None:
        if is_a(value, torch.nn.Module):
            self._module(let_in(self._session.world, value, origin))
            return None
        if not is_a(value, torch.Tensor):
            return None
        is_inside = self._session.is_stand_in(value)
        self.tensors.append(value if is_inside else let_in(self._session.world, value, origin))
        return len(self.tensors) - 1

    def calling(self) -> Callable[[Sequence[Any]], contextlib.AbstractContextManager[Any]]:
        """A block that gives the function for these values; nothing of the rehearsal is kept."""
        function, modules, cells, globals_ = self._function, self._modules, self._cells, self._globals

        @contextlib.contextmanager
        def put(values: Sequence[Any]) -> Iterator[Any]:
            with contextlib.ExitStack() as stack:
                for module, names in modules:
                    given = {name: values[number] for name, number in names.items()}
                    stack.enter_context(reparametrize_module(module, given, tie_weights=True))
                yield _with(function, cells, globals_, values) if cells or globals_ else function

        return put


def _with(function: types.FunctionType, cells: dict[int, int], names: dict[str, int], values: Sequence[Any]) -> Any:
    """The function over other tensors."""
    space = function.__globals__
    if names:
        space = {**space, **{name: values[number] for name, number in names.items()}}
    closure = tuple(
        types.CellType(values[cells[i]]) if i in cells else cell for i, cell in enumerate(function.__closure__ or ())
    )
    made = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return made
