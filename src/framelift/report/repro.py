"""A captured graph as one runnable file: the graph, inputs like those it was given, the versions.

Written by `save_repro`, and by itself when a backend fails.  `python repro.py` compiles the graph with the backend
and compares with eager; `python -m framelift minify repro.py` makes it smaller as long as it fails.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .._core import is_a
from ..capture.records.captures import Input, native_of
from ..capture.records.defects import written
from ..capture.records.events import listen
from ..exc import BackendCompilerFailed, WrongValue
from .gather import entries_of, versions
from .repro_backend import backend_lines

if TYPE_CHECKING:
    from ..capture.records.captures import Capture

_HEAD = '''"""A graph captured by framelift{name}.  Made with {versions}.

{why}
    python {file}                        compile it with BACKEND, run it, compare with eager
    python -m framelift minify {file}    make it smaller as long as it fails
"""

import sys

import torch
{imports}
# ---- backend ----
{backend}{failure}# ---- graph ----


'''
_TAIL = """

def make_inputs():
    torch.manual_seed(0)
    return [
{inputs}
    ]


def like(size, stride, dtype, device, requires_grad):
    extent = 1 + sum((n - 1) * abs(s) for n, s in zip(size, stride)) if all(size) else 0
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    flat = torch.randint(0, 2, (extent,), device=device) if is_whole else torch.randn(extent, device=device)
    tensor = torch.as_strided(flat.to(dtype), size, stride)
    return tensor.requires_grad_(requires_grad) if requires_grad else tensor


if __name__ == "__main__":
    from framelift.surface.repro_files import run
    sys.exit(run(Repro(), make_inputs(), BACKEND))
"""


def save_repro(compiled: Any, path: Any, *, number: int = 0) -> Path:
    """Write the graph of a compiled callable as one runnable file.

    `number` chooses among its graphs, the newest first.

    >>> import pathlib, tempfile, torch, framelift
    >>> f = framelift.compile(lambda x: x.sin() + 1, backend="eager")
    >>> _ = f(torch.ones(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = framelift.save_repro(f, pathlib.Path(folder) / "repro.py").read_text()
    >>> "class Repro(torch.nn.Module)" in text
    True
    """
    native = native_of(compiled)
    graphs = [entry.info for entry in entries_of(native) if entry.info.graph_module is not None]
    if not graphs:
        raise WrongValue("nothing was captured with a graph: call the compiled function first")
    info = graphs[number]
    target = Path(path)
    target.write_text(
        repro_source(
            info.graph_module,
            info.inputs,
            backend_lines(info.backend or "inductor", info.compiler()),
            name=f" from {info.name} ({info.file}:{info.line})",
            file=target.name,
        ),
        encoding="utf-8",
    )
    return target


def repro_source(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    backend: str,
    *,
    name: str = "",
    why: str = "",
    failure: tuple[str, str] | None = None,
    file: str = "repro.py",
) -> str:
    """The text of such a file.  `backend` are the lines that define BACKEND; `failure` is the type and the text of the
    exception that it raised.
    """
    body, imports = module_source(module, "Repro")
    rows = [f"        {_like(one)},   # {one.origin}" if is_a(one, Input) else f"        {one!r}," for one in inputs]
    made_with = ", ".join(f"{key} {value}" for key, value in versions().items())
    head = _HEAD.format(
        name=name.replace('"""', ""),
        versions=made_with,
        why=f"{why}\n" if why else "",
        file=file,
        backend=backend,
        failure=f"FAILURE = {failure!r}\n" if failure is not None else "",
        imports="\n".join(imports) + "\n" if imports else "",
    )
    return head + body + _TAIL.format(inputs="\n".join(rows))


def _like(one: Input) -> str:
    facts = one.facts
    if facts is None:
        return "like((), (), torch.float32, 'cpu', False)"
    return f"like({facts.size}, {facts.stride or ()}, {facts.dtype}, {str(facts.device)!r}, {facts.requires_grad})"


def module_source(module: torch.fx.GraphModule, name: str) -> tuple[str, list[str]]:
    """A graph module as the source of a class, sub-graphs included, and the import lines it needs."""
    code = module.graph.python_code("self")
    imports = [line for key, value in code.globals.items() if (line := _import(key, value))]
    classes: list[str] = []
    fields: list[str] = []
    for child_name, child in module.named_children():
        if is_a(child, torch.fx.GraphModule):
            text, more = module_source(child, f"{name}_{child_name}")
            classes.append(text)
            imports += [line for line in more if line not in imports]
            fields.append(f"        self.{child_name} = {name}_{child_name}()")
        else:
            fields.append(f"        self.{child_name} = {child!r}")
    for key, tensor in itertools.chain(module.named_buffers(recurse=False), module.named_parameters(recurse=False)):
        fields.append(
            f"        self.register_buffer({key!r}, torch.zeros({tuple(tensor.shape)}, dtype={tensor.dtype}))"
        )
    forward = re.sub(r"^", "    ", re.sub(r"^\s*\n", "", code.src), flags=re.M).rstrip()
    start = [f"class {name}(torch.nn.Module):", "    def __init__(self):", "        super().__init__()", *fields, ""]
    return "\n\n".join([*classes, "\n".join(start) + "\n" + forward + "\n"]), imports


def _import(name: str, value: Any) -> str:
    """How the generated code comes by a name."""
    if name == "torch":
        return ""
    if value is torch.device or value is None or is_a(value, (float, int)):
        return {"device": "from torch import device"}.get(
            name, f"{name} = float({str(value)!r})" if is_a(value, float) else f"{name} = {value!r}"
        )
    module, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if value is type(None):
        return f"{name} = type(None)"
    if module and getattr(sys.modules.get(module), qualified, None) is value:
        return f"from {module} import {qualified} as {name}"
    if module is None and hasattr(value, "__name__"):
        return f"import {value.__name__} as {name}"
    return f"{name} = None   # {value!r} cannot be imported"


_numbers = itertools.count(1)
_MOST_FILES = 5


@listen("failed")
def _on_failure(capture: Capture, phase: str, error: BaseException) -> None:
    """A backend failed: write the graph down, and say where in the exception."""
    if phase != "backend" or not is_a(error, BackendCompilerFailed) or capture.graph_module is None:
        return
    number = next(_numbers)
    if number > _MOST_FILES:
        return
    name = f"{re.sub(r'[^A-Za-z0-9]+', '_', capture.name)}_{os.getpid()}_{number}.py"
    cause = error.__cause__
    path = written(
        name,
        repro_source(
            capture.graph_module,
            capture.inputs,
            backend_lines(error.backend, capture.compiler()),
            name=f" from {capture.shown_name}",
            why=f"{type(cause).__name__}: {str(cause)[:300]}".replace('"""', "'''").replace("\\", "/"),
            failure=(type(cause).__qualname__, str(cause)),
            file=name,
        ),
    )
    error.add_note(
        f"framelift: the graph is in {path}; run it to repeat the failure, or make it smaller with: python "
        f"-m framelift minify {path}"
    )
