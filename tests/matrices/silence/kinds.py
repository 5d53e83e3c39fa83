"""Kinds of objects that log what reaches their class, as source text.  What is done with them is in uses.py."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KINDS", "PRELUDE", "Kind"]

#: what every module of a cell begins with; `around` is entered for the time of all calls
PRELUDE = """\
import collections, contextlib, copy, enum, functools, math, operator, types
import torch
import torch.nn.functional as F
LOG = []
around = contextlib.nullcontext
"""


@dataclass(frozen=True)
class Kind:
    """`source` defines `make()`, which gives the object; `family` says which uses it has."""

    name: str
    family: str
    source: str


def logging_class(name: str, bases: str, methods: dict[str, str], body: str = "") -> str:
    """A class whose special methods log their names.  `methods`: "name(arguments)" -> the expression it returns."""
    lines = [f"class {name}({bases}):"]
    lines += [f"    {line}" for line in body.splitlines()]
    for signature, result in methods.items():
        word = signature.partition("(")[0]
        lines += [f"    def {signature}:", f"        LOG.append({word!r})", f"        return {result}"]
    return "\n".join(lines) + "\n"


ATTRIBUTES = {"__getattribute__(self, name)": "object.__getattribute__(self, name)"}
MISSING = {"__getattr__(self, name)": "7 if name == 'lost' else object.__getattribute__(self, name)"}
WRITES = {
    "__setattr__(self, name, value)": "object.__setattr__(self, name, value)",
    "__delattr__(self, name)": "object.__delattr__(self, name)",
}
COMPARES = {
    f"__{op}__(self, other)": f"operator.{op}(2, other if type(other) in (int, float) else 3)"
    for op in ("eq", "ne", "lt", "le", "gt", "ge")
}
HASH = {"__hash__(self)": "5"}
TRUTH = {"__bool__(self)": "True"}
SIZED = {
    "__len__(self)": "2",
    "__iter__(self)": "iter((1, 2))",
    "__getitem__(self, key)": "(1, 2)[key]",
    "__contains__(self, item)": "item in (1, 2)",
    "__reversed__(self)": "iter((2, 1))",
}
NUMBER = {
    "__index__(self)": "1",
    "__int__(self)": "1",
    "__float__(self)": "1.5",
    "__complex__(self)": "1j",
    "__round__(self, n=None)": "2",
    "__trunc__(self)": "1",
    "__floor__(self)": "1",
    "__ceil__(self)": "2",
    "__neg__(self)": "-2",
    "__abs__(self)": "2",
    "__invert__(self)": "-3",
}
BINARY = {
    f"__{side}{op}__(self, other)": f"operator.{op}(2, 3) if type(other) is type(self) else 2 * other"
    for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
    for side in ("", "r")
}
TEXT = {"__repr__(self)": "'shown'", "__str__(self)": "'said'", "__format__(self, spec)": "'formatted'"}
CALLED = {"__call__(self, x)": "x * 2"}
BLOCK = {"__enter__(self)": "self", "__exit__(self, *exc)": "False"}
COPIED = {"__copy__(self)": "self", "__deepcopy__(self, memo)": "self"}
DIRECTED = {"__dir__(self)": "['k']", "__sizeof__(self)": "16"}
CLASS = "@property\ndef __class__(self):\n    LOG.append('__class__')\n    return type(self)\n"
LIE = "@property\ndef __class__(self):\n    LOG.append('__class__')\n    return int\n"
HELD = "def __init__(self):\n    object.__setattr__(self, 'k', 2)\n"
MAKE = "\ndef make():\n    return Box()\n"

OBJECTS = {
    "getattribute": logging_class("Box", "object", ATTRIBUTES, HELD),
    "getattr": logging_class("Box", "object", MISSING, HELD),
    "both": logging_class("Box", "object", {**ATTRIBUTES, **MISSING}, HELD),
    "writes": logging_class("Box", "object", WRITES, HELD),
    "class_property": logging_class("Box", "object", {}, HELD + CLASS),
    "class_lie": logging_class("Box", "object", {}, HELD + LIE),
    "class_and_getattribute": logging_class("Box", "object", ATTRIBUTES, HELD + CLASS),
    "compared": logging_class("Box", "object", {**COMPARES, **HASH}, HELD),
    "truth": logging_class("Box", "object", {**TRUTH, **TEXT}, HELD),
    "sized": logging_class("Box", "object", SIZED, HELD),
    "number": logging_class("Box", "object", {**NUMBER, **BINARY}, HELD),
    "text": logging_class("Box", "object", TEXT, HELD),
    "called": logging_class("Box", "object", {**CALLED, **BLOCK, **COPIED}, HELD),
    "everything": logging_class(
        "Box",
        "object",
        {
            **ATTRIBUTES,
            **MISSING,
            **WRITES,
            **COMPARES,
            **HASH,
            **TRUTH,
            **SIZED,
            **NUMBER,
            **BINARY,
            **TEXT,
            **CALLED,
            **BLOCK,
            **COPIED,
            **DIRECTED,
        },
        HELD + CLASS,
    ),
    "slots": logging_class("Box", "object", {**ATTRIBUTES, **TRUTH}, "__slots__ = ('k',)\n" + HELD),
    "inherited": logging_class("Base", "object", {**ATTRIBUTES, **TRUTH, **SIZED}, HELD) + "class Box(Base): pass\n",
    "module": logging_class(
        "Box",
        "torch.nn.Module",
        {
            "__getattr__(self, name)": "7 if name == 'lost' else torch.nn.Module.__getattr__(self, name)",
            "forward(self, x)": "x * self.k",
        },
        "def __init__(self):\n    super().__init__()\n    self.k = 2\n    self.w = torch.nn.Parameter(torch.ones(1))\n",
    ),
    "module_getattribute": logging_class(
        "Box",
        "torch.nn.Module",
        {"__getattribute__(self, name)": "torch.nn.Module.__getattribute__(self, name)", "forward(self, x)": "x * 2"},
        "def __init__(self):\n    super().__init__()\n    self.k = 2\n",
    ),
    "enum": "class Box(enum.Enum):\n    A = 1\n    k = 2\n    def __bool__(self):\n        LOG.append('__bool__')\n"
    "        return True\n"
    "    def __hash__(self):\n        LOG.append('__hash__')\n        return 5\n\ndef make():\n    return Box.A\n",
    "finalised": logging_class("Box", "object", {"__del__(self)": "None", **ATTRIBUTES}, HELD),
}

METACLASS = {
    "__getattribute__(cls, name)": "type.__getattribute__(cls, name)",
    "__getattr__(cls, name)": "7 if name == 'lost' else None",
    "__instancecheck__(cls, value)": "type.__instancecheck__(cls, value)",
    "__subclasscheck__(cls, value)": "type.__subclasscheck__(cls, value)",
    "__call__(cls, *args)": "type.__call__(cls, *args)",
    "__len__(cls)": "3",
    "__iter__(cls)": "iter((1, 2))",
    "__bool__(cls)": "True",
    "__eq__(cls, other)": "cls is other",
    "__hash__(cls)": "5",
    "__repr__(cls)": "'shown'",
    "__contains__(cls, item)": "True",
    "__getitem__(cls, key)": "2",
    "__dir__(cls)": "['k']",
    "mro(cls)": "type.mro(cls)",
}


def _metaclass(names: tuple[str, ...]) -> str:
    methods = {signature: result for signature, result in METACLASS.items() if signature.partition("(")[0] in names}
    return (
        logging_class("Meta", "type", methods)
        + "class Box(metaclass=Meta):\n    k = 2\n    def m(self, x):\n        return x * 2\n"
    )


_META_SETS = {
    "reads": ("__getattribute__", "__getattr__"),
    "checks": ("__instancecheck__", "__subclasscheck__"),
    "calls": ("__call__",),
    "values": ("__len__", "__iter__", "__bool__", "__eq__", "__hash__", "__repr__", "__contains__", "__getitem__"),
    "all": tuple(signature.partition("(")[0] for signature in METACLASS),
}

DESCRIPTORS = {
    "data_descriptor": logging_class(
        "Field",
        "object",
        {
            "__get__(self, obj, cls=None)": "2",
            "__set__(self, obj, value)": "None",
            "__delete__(self, obj)": "None",
            "__set_name__(self, owner, name)": "None",
        },
    ),
    "plain_descriptor": logging_class(
        "Field", "object", {"__get__(self, obj, cls=None)": "2", "__set_name__(self, owner, name)": "None"}
    ),
    "watched_descriptor": logging_class(
        "Field", "object", {"__get__(self, obj, cls=None)": "2", **ATTRIBUTES, **TRUTH, **HASH, **COMPARES}
    ),
}

_CONTAINER = {
    "dict": {
        "__getitem__(self, key)": "dict.__getitem__(self, key)",
        "__contains__(self, key)": "dict.__contains__(self, key)",
        "__missing__(self, key)": "7",
        "__iter__(self)": "dict.__iter__(self)",
        "__len__(self)": "dict.__len__(self)",
        "keys(self)": "dict.keys(self)",
        "get(self, key, default=None)": "dict.get(self, key, default)",
        "items(self)": "dict.items(self)",
    },
    "list": {
        "__getitem__(self, key)": "list.__getitem__(self, key)",
        "__contains__(self, key)": "list.__contains__(self, key)",
        "__iter__(self)": "list.__iter__(self)",
        "__len__(self)": "list.__len__(self)",
        "append(self, item)": "list.append(self, item)",
    },
    "tuple": {
        "__getitem__(self, key)": "tuple.__getitem__(self, key)",
        "__contains__(self, key)": "tuple.__contains__(self, key)",
        "__iter__(self)": "tuple.__iter__(self)",
        "__len__(self)": "tuple.__len__(self)",
    },
    "set": {
        "__contains__(self, key)": "set.__contains__(self, key)",
        "__iter__(self)": "set.__iter__(self)",
        "__len__(self)": "set.__len__(self)",
    },
}
_CONTENTS = {"dict": "{'k': 2, 1: 3}", "list": "[2, 1]", "tuple": "(2, 1)", "set": "{2, 1}"}
_COMMON = {
    "__eq__(self, other)": "self is other",
    "__hash__(self)": "5",
    "__bool__(self)": "True",
    "__repr__(self)": "'shown'",
}
_VALUES = {"int": "2", "float": "1.5", "str": "'k'"}


def _value_class(base: str) -> str:
    operators = {
        f"__{op}__(self, other)": f"{base}.__{op}__(self, other)"
        for op in (("add", "mul", "eq") if base != "str" else ("add", "eq"))
    }
    more = (
        {
            "__hash__(self)": f"{base}.__hash__(self)",
            "__repr__(self)": "'shown'",
            "__str__(self)": "'said'",
            "__bool__(self)": "True",
        }
        if base != "bool"
        else {}
    )
    return logging_class(
        "Box", base, {**operators, **more, "__getattribute__(self, name)": f"{base}.__getattribute__(self, name)"}
    ) + (f"def make():\n    return Box({_VALUES[base]})\n")


TORCH_FUNCTION = """\
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        names = tuple(t.__name__ for t in types)
        LOG.append((describe(func), names, tuple(map(brief, args)), tuple(sorted(kwargs or ()))))
        return super().__torch_function__(func, types, args, kwargs or {})
"""
DESCRIBE = """\
def describe(func):
    return f"{getattr(func, '__qualname__', func)} of {getattr(getattr(func, '__self__', None), '__name__', None)}"
def brief(arg):
    return type(arg).__name__ if not isinstance(arg, (int, float, str, bool)) else arg
"""
MODE = (
    DESCRIBE
    + """\
class Watching(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        names = tuple(t.__name__ for t in types)
        LOG.append((describe(func), names, tuple(map(brief, args)), tuple(sorted(kwargs or ()))))
        return func(*args, **(kwargs or {}))
"""
)
DISPATCH_MODE = """\
from torch.utils._python_dispatch import TorchDispatchMode
class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        LOG.append((str(func), tuple(t.__name__ for t in types), len(args), tuple(sorted(kwargs or ()))))
        return func(*args, **(kwargs or {}))
"""
TENSORS = {
    "function": DESCRIBE + "class Box(torch.Tensor):\n" + TORCH_FUNCTION,
    "names": "class Box(torch.Tensor):\n    @classmethod\n"
    "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
    "        LOG.append(func.__name__)\n        return super().__torch_function__(func, types, args, kwargs or {})\n",
    "inherits": "class Box(torch.Tensor):\n    pass\n",
    "methods": "class Box(torch.Tensor):\n    def size(self, *a):\n        LOG.append('size')\n"
    "        return super().size(*a)\n"
    "    @property\n    def requires_grad(self):\n        LOG.append('requires_grad')\n"
    "        return super().requires_grad\n"
    "    @property\n    def shape(self):\n        LOG.append('shape')\n        return super().shape\n"
    "    @property\n    def dtype(self):\n        LOG.append('dtype')\n        return super().dtype\n"
    "    @property\n    def device(self):\n        LOG.append('device')\n        return super().device\n"
    "    def dim(self):\n        LOG.append('dim')\n        return super().dim()\n"
    "    def stride(self, *a):\n        LOG.append('stride')\n        return super().stride(*a)\n",
    "getattribute": "class Box(torch.Tensor):\n    def __getattribute__(self, name):\n        LOG.append(name)\n"
    "        return super().__getattribute__(name)\n",
    "getattr": "class Box(torch.Tensor):\n    def __getattr__(self, name):\n        LOG.append(name)\n"
    "        return 3\n",
    "dispatch": "class Box(torch.Tensor):\n    @classmethod\n"
    "    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):\n"
    "        LOG.append(str(func))\n        return super().__torch_dispatch__(func, types, args, kwargs or {})\n",
    "parameter": DESCRIBE + "class Box(torch.nn.Parameter):\n"
    "    __torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: "
    "(LOG.append(describe(func)), "
    "torch.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs or {}))[1])\n",
}
_MAKE_TENSOR = "def make():\n    made = torch.ones(3).as_subclass(Box)\n    LOG.clear()\n    return made\n"
LIKE = (
    DESCRIBE
    + """\
class Box:
    def __init__(self):
        self.inner = torch.ones(1)
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        names = tuple(t.__name__ for t in types)
        LOG.append((describe(func), names, tuple(map(brief, args)), tuple(sorted(kwargs or ()))))
        return func(*[a.inner if isinstance(a, Box) else a for a in args], **(kwargs or {}))
def make():
    return Box()
"""
)

KINDS: list[Kind] = [
    *(
        Kind(f"object_{name}", "object", source + ("" if "def make" in source else MAKE))
        for name, source in OBJECTS.items()
    ),
    *(
        Kind(f"class_{name}", "class", _metaclass(names) + "def make():\n    return Box\n")
        for name, names in _META_SETS.items()
    ),
    *(Kind(f"instance_of_class_{name}", "object", _metaclass(names) + MAKE) for name, names in _META_SETS.items()),
    *(
        Kind(f"object_{name}", "object", source + "class Box:\n    k = Field()\n" + MAKE)
        for name, source in DESCRIPTORS.items()
    ),
    *(
        Kind(f"class_{name}", "class", source + "class Box:\n    k = Field()\ndef make():\n    return Box\n")
        for name, source in DESCRIPTORS.items()
    ),
    *(
        Kind(
            f"container_{name}",
            "container",
            logging_class("Box", name, {**methods, **(_COMMON if name != "tuple" else {})})
            + f"def make():\n    return Box({_CONTENTS[name]})\n",
        )
        for name, methods in _CONTAINER.items()
    ),
    *(
        Kind(
            f"container_{name}_getattribute",
            "container",
            logging_class("Box", name, {"__getattribute__(self, name)": f"{name}.__getattribute__(self, name)"})
            + f"def make():\n    return Box({_CONTENTS[name]})\n",
        )
        for name in _CONTAINER
    ),
    *(Kind(f"value_{name}", "value", _value_class(name)) for name in _VALUES),
    *(Kind(f"tensor_{name}", "tensor", source + _MAKE_TENSOR) for name, source in TENSORS.items()),
    Kind("mode_active", "tensor", MODE + "around = Watching\ndef make():\n    return torch.ones(3)\n"),
    Kind(
        "mode_two_active",
        "tensor",
        MODE + "@contextlib.contextmanager\ndef around():\n    with Watching(), Watching():\n        yield\n"
        "def make():\n    return torch.ones(3)\n",
    ),
    Kind(
        "mode_and_subclass",
        "tensor",
        MODE + "class Box(torch.Tensor):\n" + TORCH_FUNCTION + "around = Watching\n" + _MAKE_TENSOR,
    ),
    Kind(
        "dispatch_mode_active", "tensor", DISPATCH_MODE + "around = Watching\ndef make():\n    return torch.ones(3)\n"
    ),
    Kind(
        "dispatch_mode_and_mode",
        "tensor",
        DISPATCH_MODE.replace("Watching", "Below")
        + MODE
        + "@contextlib.contextmanager\ndef around():\n    with Below(), Watching():\n        yield\n"
        "def make():\n    return torch.ones(3)\n",
    ),
    Kind("like", "like", LIKE),
    Kind("watched_by_mode", "watched", MODE + "around = Watching\ndef make():\n    return torch.ones(3)\n"),
    Kind("watched_by_class", "watched", TENSORS["function"] + _MAKE_TENSOR),
]
