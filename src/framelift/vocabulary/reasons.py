"""Every reason why something cannot be captured, declared once: stable id, one sentence, one hint.

The place where it happens names the id and the detail, never free text of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reason:
    """One declared reason.  `sentence` may hold `{detail}`."""

    id: str
    sentence: str
    hint: str


REASONS: dict[str, Reason] = {}


def _declare(id: str, sentence: str, hint: str) -> None:
    assert id not in REASONS, id
    REASONS[id] = Reason(id, sentence, hint)


def explained_by(reason: str) -> str:
    """The command that explains a reason, with or without a network.

    >>> explained_by("tensor-bool")
    'python -m framelift explain tensor-bool'
    """
    return f"python -m framelift explain {reason}"


#: private name -> how programs write it
_WRITTEN = {
    "torch._C.TensorBase.": "Tensor.",
    "TensorBase.": "Tensor.",
    "_VariableFunctionsClass.": "torch.",
    "Tensor.__float__": "float(tensor)",
    "Tensor.__int__": "int(tensor)",
    "Tensor.__long__": "int(tensor)",
    "Tensor.__complex__": "complex(tensor)",
    "Tensor.__index__": "its use as an index",
    "_warnings.": "warnings.",
    "io.open": "open",
}


def written(name: str) -> str:
    """A callable's name as programs write it.

    >>> written("TensorBase.__float__")
    'float(tensor)'
    """
    for private, public in _WRITTEN.items():
        if name.startswith(private):
            name = name.replace(private, public, 1)
    return name


class Interrupt(BaseException):
    """Unwinds a rehearsal to its root: this cannot be captured.  Never leaves framelift."""

    def __init__(self, reason: str, detail: str = "") -> None:
        assert reason in REASONS, reason
        super().__init__(reason, detail)
        self.reason = REASONS[reason]
        self.detail = written(detail)
        self.operator = ""  # the control-flow operator whose body it struck: nothing falls back to eager mode then
        self.error: BaseException | None = None  # to be raised where the frame would otherwise run eagerly
        self.run_eagerly = False  # the frame is to run eagerly from its start
        self.before: tuple[int, int] | None = None  # as `root`: where a break would rather be
        self.root = (-1, 0)  # the root's code unit in its twin, and how many probes it had called
        self.places: tuple[Any, ...] = ()  # the program's frames when it was raised, as `_core.places()` gives them
        self.given: tuple[Any, ...] = ()  # to the torch operation that it struck; dropped with the rehearsal
        self.first: Any = None  # done once before another rehearsal, this can be captured: a function without arguments
        self.passes = False  # once the program did this, it does it no more: the next call may be captured
        self.is_left = False  # so this call runs eagerly, with all it calls, and nothing is remembered

    @property
    def sentence(self) -> str:
        return self.reason.sentence.format(detail=self.detail)


_declare(
    "unknown-callable",
    "{detail} cannot be part of a graph",
    "Call it outside the compiled function, or register it with a substitute.",
)
_declare(
    "callable-on-handle",
    "the C function {detail} would read attributes of a Python object, which cannot be traced",
    "Read the attributes it needs in Python and pass those.",
)
_declare(
    "opaque-object",
    "an object of the C type {detail} was used, and its behaviour is not known",
    "Keep such objects outside the compiled function, or pass what you need of them as numbers and tensors.",
)
_declare(
    "tensor-bool",
    "a branch depends on the values of a tensor ({detail})",
    "Use `torch.where` or `torch.cond`, or move the branch outside the compiled function.",
)
_declare(
    "tensor-item",
    "a tensor's value was taken into Python by {detail}",
    "Keep the value as a tensor, or take it outside the compiled function.",
)
_declare(
    "tensor-data",
    "{detail} reads a tensor's memory, which does not exist while tracing",
    "Move it outside the compiled function.",
)
_declare(
    "tensor-repr", "a tensor's values were turned into text", "Print outside the compiled function, or print the shape."
)
_declare(
    "data-dependent-shape",
    "the result of {detail} has a size that depends on values",
    "Move it outside the compiled function.",
)
_declare("torch-operation", "the torch operation {detail} is not captured", "Call it outside the compiled function.")
_declare(
    "torch-operation-failed",
    "the torch operation failed on the shapes given: {detail}",
    "Run the function without framelift to see the error.",
)
_declare(
    "missing-part",
    "{detail}",
    "Use a version of torch that this framelift supports; python -m framelift doctor lists what is missing.",
)
_declare(
    "torch-state",
    "{detail} changes torch's global state in a way that is not captured",
    "Change it outside the compiled function.",
)
_declare(
    "tensor-subclass",
    "tensors of type {detail} are not captured",
    "Convert to a plain tensor outside the compiled function.",
)
_declare(
    "tensor-kind",
    "a tensor of an unsupported kind: {detail}",
    "Convert it to a dense, strided tensor outside the compiled function.",
)
_declare(
    "disabled",
    "{detail} is marked as not to be compiled",
    "Remove `torch.compiler.disable`, or call it outside the compiled function.",
)
_declare(
    "disallowed",
    "{detail} is marked as not allowed in graphs",
    "Remove `disallow_in_graph`, or call it outside the compiled function.",
)
_declare("forbidden", "{detail} must not be called in captured code", "Call it outside the compiled function.")
_declare("graph-break", "the program asked for a graph break{detail}", "Remove the call of `graph_break`.")
_declare("skip-frame", "the program asked to run this frame eagerly{detail}", "Remove the call of `skip_frame`.")
_declare(
    "constant-argument",
    "{detail} is declared constant, but it is called with a value that captured code made",
    "Pass values that exist before the call of the compiled function.",
)
_declare(
    "backend-skip",
    "the backend asked to run this frame eagerly: {detail}",
    "Use another backend to see the graph compiled.",
)
_declare(
    "backend-cannot",
    "the backend cannot compile the graph of this frame: {detail}",
    "Move the operation it names out of the compiled function, or use another backend.",
)
_declare(
    "own-function",
    "framelift's own function {detail} was called in captured code",
    "Call it outside the compiled function.",
)
_declare(
    "result-object",
    "a value of type {detail} was created inside and cannot be rebuilt outside",
    "Return its parts instead.",
)
_declare(
    "generator",
    "a {detail} was created inside, and its frame cannot be rebuilt outside",
    "Return a list of its values; or compile the function that loops over it, or the body of that loop.",
)
_declare(
    "coroutine",
    "the coroutine {detail} runs step by step, as its event loop says, and is not captured",
    "Compile the functions without async that it calls.",
)
_declare(
    "effect-object",
    "the change made to {detail} cannot be carried over to the real object",
    "Make that change outside the compiled function.",
)
_declare("unsupported-code", "{detail} cannot be traced", "Call it outside the compiled function.")
_declare(
    "caught",
    "an interrupt was caught by the program before it reached the root ({detail})",
    "Catch `Exception` around it rather than everything.",
)
_declare(
    "random-state",
    "a number was drawn from {detail}, whose state differs from call to call",
    "Draw it outside the compiled function and pass it, or use torch's generators.",
)
_declare(
    "symbolic-number",
    "{detail} does not work with symbolic sizes and numbers",
    "Mark the sizes as static, or call it outside the compiled function.",
)
_declare("too-large", "{detail} is too large to be copied and guarded", "Read only the part you need.")
_declare(
    "lazy-module",
    "{detail} is a lazy module whose parameters are made by this call",
    "Nothing to do: this call runs eagerly, and the next one is compiled.",
)
_declare(
    "active-mode",
    "{detail} is active, and captured graphs would not honour it",
    "Call the compiled function outside of it.",
)
_declare(
    "active-transform",
    "Calling torch.func.{detail}(compiled_fn) function from eager mode is not supported",
    "Compile the function that calls the transform.",
)
_declare(
    "body-effect",
    "{detail} changes something outside of itself, and a graph of its own cannot do that",
    "Return the new value instead.",
)
_declare(
    "body-shape", "{detail}", "Give the operator bodies whose results agree, without tensors that alias its arguments."
)
_declare(
    "body-escape",
    "a tensor made inside the body of a higher-order operator is used outside of it ({detail})",
    "Return it from the body.",
)
