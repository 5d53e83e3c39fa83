"""Symbolic numbers: torch's additions to sympy."""

from .port import A_CLASS, AN_ERROR, Port, area

__getattr__ = area(
    globals(),
    "dynamic shapes",
    Port("sympy_interp", "torch.utils._sympy.interp:sympy_interp", "compute expressions of sizes"),
    Port("int_oo", "torch.utils._sympy.numbers:int_oo", "know that a size has no bound"),
    Port(
        "PythonPrinter",
        "torch.utils._sympy.printers:PythonPrinter",
        "print expressions of sizes as Python",
        instead=A_CLASS,
    ),
    Port(
        "PythonReferenceAnalysis",
        "torch.utils._sympy.reference:PythonReferenceAnalysis",
        "compute expressions of sizes",
        instead=A_CLASS,
    ),
    Port(
        "SingletonInt",
        "torch.utils._sympy.singleton_int:SingletonInt",
        "know the lengths of jagged tensors",
        instead=A_CLASS,
    ),
    Port("SymT", "torch.utils._sympy.symbol:SymT", "tell sizes that only the graph knows", instead=A_CLASS),
    Port("symbol_is_type", "torch.utils._sympy.symbol:symbol_is_type", "tell sizes that only the graph knows"),
    Port(
        "ValueRangeError",
        "torch.utils._sympy.value_ranges:ValueRangeError",
        "report ranges that exclude each other",
        instead=AN_ERROR,
    ),
    Port("ValueRanges", "torch.utils._sympy.value_ranges:ValueRanges", "keep the ranges of sizes", instead=A_CLASS),
    Port("sympy_functions", "torch.utils._sympy.functions", "write expressions of sizes to disk"),
    Port("shapes_config", "torch.fx.experimental._config", "read the settings of dynamic shapes"),
)
