"""All that framelift replaces in torch and in Python, in one table: where, since when, in which versions, and why.

What a user asks for (`framelift.install()` puts other functions in the place of torch's) is in surface/drop_in.py,
which has a table of its own, and settings that are put back are no replacements.  docs/internals/patches.md shows this
table; a test compares the two, and looks for replacements that are not in it.
"""

from __future__ import annotations

from typing import NamedTuple

_ALL = "all"


class Patch(NamedTuple):
    """One thing that is replaced."""

    place: str  # its full name
    file: str  # where that is done, below src/framelift or in csrc
    when: str
    versions: str  # of torch, or of CPython, that it is for; elsewhere nothing is replaced
    why: str


_WARNS = "torch._higher_order_ops.invoke_subgraph.warn_and_trace_duplicate_backward"
_IMPORT = "when framelift is imported, for the process"
_FIRST_COMPILE = "at the first compile with Inductor, for the process"
_COMPILING = "while a graph is compiled"
_CPP = "torch._inductor.codegen.cpp"
_CACHE = "torch._functorch._aot_autograd.autograd_cache.AOTAutogradCache"
_RAISES = "kernels raise where a check fails, instead of ending the process"

PATCHES = (
    Patch(
        "torch.fx.experimental.sym_node._optimized_add",
        "graph/symbols/symbol_sources.py",
        _IMPORT,
        _ALL,
        "torch takes an expression for a sum that is none any more: sizes came out wrong",
    ),
    Patch(
        "functions under torch._disable_dynamo: their attribute __dynamo_disable",
        "graph/metadata/without_dynamo.py",
        "at the first operation with a kernel in Python, until TorchDynamo is imported",
        "those whose wrapper looks for it",
        "the first call of such a kernel would import TorchDynamo",
    ),
    Patch(f"{_CPP}.CppKernel.check_bounds", "backends/raising_kernels.py", _FIRST_COMPILE, _ALL, _RAISES),
    Patch(
        f"{_CPP}.CppKernel.device_assert_async", "backends/raising_kernels.py", _FIRST_COMPILE, "since 2.12", _RAISES
    ),
    Patch(f"{_CPP}.CppKernelProxy.gen_body", "backends/raising_kernels.py", _FIRST_COMPILE, _ALL, _RAISES),
    Patch(f"{_CPP}.KernelGroup.codegen_group", "backends/raising_kernels.py", _FIRST_COMPILE, _ALL, _RAISES),
    Patch(
        "torch._inductor.cpu_vec_isa.valid_vec_isa_list",
        "backends/vector_instructions.py",
        _FIRST_COMPILE,
        "Linux on x86",
        "Inductor tries all sets of vector instructions, and takes the best one",
    ),
    Patch(
        f"{_CACHE}.save",
        "backends/warm_start.py",
        _FIRST_COMPILE,
        _ALL,
        "a note for warm starts is written beside what torch keeps; what a compiler assumed of a float is not kept",
    ),
    Patch(f"{_CACHE}._lookup", "backends/warm_start.py", _FIRST_COMPILE, _ALL, "what torch finds gets such a note"),
    Patch(
        "torch._inductor.codegen.wrapper.SubgraphPythonWrapperCodegen.codegen_input_size_asserts",
        "backends/layers/layer_inputs.py",
        _COMPILING,
        "those where it is inherited",
        "calls of folded layers would check sizes and strides of their inputs each time",
    ),
    Patch(
        "torch.ops.higher_order.invoke_subgraph.gen_schema",
        "backends/layers/repeated_layers.py",
        "while a graph with folded layers is compiled",
        _ALL,
        "torch would trace a layer at each of its calls",
    ),
    Patch(
        _WARNS,
        "backends/layers/repeated_layers.py",
        "while a graph with folded layers is compiled",
        "those that have it",
        "the program did not ask for layers to be folded",
    ),
    Patch(
        "type(torch._functorch.config).save_config",
        "backends/compile_worker.py",
        "in the process that compiles in the background, while it compiles",
        _ALL,
        "the backward is compiled with the forward, under the key of one that is not",
    ),
    Patch(
        "torch.autograd.Function.apply",
        "export/autograd_functions.py",
        "while torch.export captures",
        _ALL,
        "an export has to see that an autograd function was applied",
    ),
    Patch("torch.compile", "export/lowering.py", "while an export runs Python", _ALL, "torch.cond compiles its bodies"),
    Patch(
        "the class of torch._dynamo.config: __setattr__",
        "surface/torch_names/settings.py",
        "while framelift is installed as torch.compile",
        _ALL,
        "framelift.config follows what a program sets there",
    ),
    Patch(
        "object.__class__: its setter in C",
        "csrc/guard_told.cpp",
        "at the first guard on an object's class, for the process",
        "CPython 3.11 to 3.13",
        "a change is counted, so that guards need not look again",
    ),
    Patch(
        "__dict__ of objects of classes written in Python: its setter in C",
        "csrc/guard_told.cpp",
        "at the first guard on an object's class, for the process",
        "CPython 3.11 to 3.13",
        "a change is counted, so that guards need not look again",
    ),
    Patch(
        "sys.unraisablehook",
        "capture/debuggers.py",
        "while a frame is captured",
        _ALL,
        "generators that a break leaves behind would be reported",
    ),
    Patch(
        "warnings.filters",
        "vocabulary/quiet_capture.py",
        "while a frame is captured",
        _ALL,
        "a warning is given by the call, and not a second time by its capture",
    ),
)


def as_markdown() -> str:
    """The table as docs/internals/patches.md has it."""
    rows = [f"| `{one.place}` | `{_path(one)}` | {one.when} | {one.versions} | {one.why} |" for one in PATCHES]
    return "\n".join(["| what | where | when | versions | why |", "|---|---|---|---|---|", *rows])


def _path(one: Patch) -> str:
    return one.file if one.file.startswith("csrc/") else f"src/framelift/{one.file}"
