"""Symbolic numbers: torch's additions to sympy."""

from .port import area, parts

__getattr__ = area(
    globals(),
    "dynamic shapes",
    parts("torch.utils._sympy.interp", "compute expressions of sizes", "sympy_interp"),
    parts("torch.utils._sympy.numbers", "know that a size has no bound", "int_oo"),
    parts("torch.utils._sympy.printers", "print expressions of sizes as Python", "PythonPrinter"),
    parts("torch.utils._sympy.reference", "compute expressions of sizes", "PythonReferenceAnalysis"),
    parts("torch.utils._sympy.singleton_int", "know the lengths of jagged tensors", "SingletonInt"),
    parts("torch.utils._sympy.symbol", "tell sizes that only the graph knows", "SymT symbol_is_type"),
    parts("torch.utils._sympy.value_ranges", "report ranges that exclude each other", "ValueRangeError"),
    parts("torch.utils._sympy.value_ranges", "keep the ranges of sizes", "ValueRanges"),
    parts("torch.utils._sympy.functions", "write expressions of sizes to disk", "sympy_functions="),
    parts("torch.fx.experimental._config", "read the settings of dynamic shapes", "shapes_config="),
)
