"""Portraits: a comparable description of any Python value, identity pattern and aliasing included.

A portrait is a list of nodes, numbered in the order of first visit; children are node numbers.  Two values have equal
portraits when they have the same types, contents, sharing between their parts, and tensors with the same metadata, data
and storage sharing.  Data is copied when the portrait is taken, so that later changes do not show.
Running programs and counting captures belongs to support.py.
"""

from __future__ import annotations

import array
import collections
import ctypes
import datetime
import decimal
import enum
import functools
import gc
import io
import itertools
import re
import sys
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = ["Portrait", "difference", "forget", "portrait", "without_addresses"]

#: classes whose instances are their own description
LEAVES = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(...),
    type(NotImplemented),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    torch.finfo,
    torch.iinfo,
    range,
    enum.Enum,
    types.CodeType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)
#: values without an identity worth a look, which say themselves what they are
SHOWN = (decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, slice, re.Pattern)
#: objects whose text is their contents
TOLD = (types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()), re.Match)
#: iterators that say where they stand
ITERATORS = (
    enumerate,
    zip,
    map,
    filter,
    reversed,
    itertools.chain,
    itertools.islice,
    itertools.count,
    itertools.cycle,
    itertools.repeat,
    itertools.accumulate,
    *(type(iter(kind)) for kind in ([], (), {}, {}.values(), {}.items(), "", range(0), set())),
    type(reversed([])),
)
#: leaves that need no closer look: class -> its name in descriptions
PLAIN: dict[type, str] = {c: c.__name__ for c in (type(None), bool, int, float, complex, str, bytes)}
#: those of them that are described by themselves, whatever their value
QUICK: dict[type, str] = {c: c.__name__ for c in (type(None), bool, int, bytes)}


def without_addresses(text: str) -> str:
    """Text of objects without a `__repr__` shows their address, which is nobody's state."""
    if "0" not in text:
        return text
    if " AT 0X" in text:  # a program may write it in capitals
        text = re.sub(r" AT 0X[0-9A-F]+", " AT 0X", text)
    if "x0 ta " in text:  # or turn the text round
        text = re.sub(r"[0-9a-f]+x0 ta ", "x0 ta ", text)
    return re.sub(r" at 0x[0-9a-f]+", " at 0x", text) if " at 0x" in text else text


@functools.lru_cache(maxsize=512)
def _is_leaf(cls: type) -> bool:
    return issubclass(cls, LEAVES) or cls in SHOWN


def _is_value(value: Any) -> bool:
    """Immutable leaves, and tuples of nothing but leaves: whether equal ones are one object is CPython's business."""
    cls = type(value)
    return cls in PLAIN or _is_leaf(cls) or cls is tuple and all(map(_is_value, value))


class Node(int):
    """The number of a node, told apart from numbers that are values."""


class Portrait:
    """The nodes of one value.  Build with `portrait`."""

    def __init__(self, exact: bool, own: Callable[[Any], bool]) -> None:
        self.root: Any = None
        self.nodes: list[tuple[Any, ...]] = []
        self.exact = exact
        self.own = own  # is this class or function part of the program (look inside) or not
        self._parents: list[
            tuple[int, Any]
        ] = []  # how each node was reached first, for messages: from which, and its place there
        self._here = -1
        self._seen: dict[int, Node] = {}
        self._storages: dict[int, int] = {}
        self._alive: list[Any] = []  # ids are only unique while the objects live

    def add(self, value: Any, label: Any = None) -> Any:
        """The node number of `value`, or for a value without identity its own description; `label` is the step to it.

        A key or a place.
        """
        cls = type(value)
        name = PLAIN.get(cls)
        if name is not None:
            return name, without_addresses(value) if cls is str else repr(value) if self.exact and (
                cls is float or cls is complex
            ) else value
        if _is_leaf(cls):
            return _leaf(value)
        if cls is tuple and all(map(_is_value, value)):
            return tuple(map(self.add, value))
        known = self._seen.get(id(value))
        if known is not None:
            return known
        number = Node(len(self.nodes))
        self.nodes.append(())
        self._parents.append((self._here, label))
        self._seen[id(value)] = number
        self._alive.append(value)
        before, self._here = self._here, number
        self.nodes[number] = _describer(cls)(self, value)
        self._here = before
        return number

    def path(self, number: int) -> str:
        """How a node is reached, in words."""
        steps = []
        while number >= 0:
            number, label = self._parents[number]
            steps.append("" if label is None else f"[{label!r}]" if type(label) in PLAIN else "[...]")
        return "value" + "".join(reversed(steps))

    def storage(self, tensor: torch.Tensor) -> Any:
        """Which storage, numbered by first visit, and where in it."""
        if tensor.layout is not torch.strided or tensor.is_meta:
            return None
        address = tensor.untyped_storage().data_ptr()
        if not address:
            return None
        return self._storages.setdefault(address, len(self._storages)), tensor.storage_offset()

    def children(self, values: Any, labels: Any = None) -> tuple[Any, ...]:
        """Several values; without `labels` they are counted."""
        add, quick = self.add, QUICK
        return tuple(
            [
                (quick[type(v)], v) if type(v) in quick else add(v, label)
                for v, label in zip(values, itertools.count() if labels is None else labels)
            ]
        )

    def release(self) -> None:
        self._alive.clear()
        self._seen.clear()


def forget() -> None:
    """Let go of the classes seen."""
    _is_leaf.cache_clear()
    _describer.cache_clear()
    _slots.cache_clear()


@functools.lru_cache(maxsize=512)
def _describer(cls: type) -> Callable[[Portrait, Any], tuple[Any, ...]]:
    return next((describe for types_, describe in DESCRIBERS if issubclass(cls, types_)), _instance)


def portrait(value: Any, *, exact: bool = True, own: Callable[[Any], bool] = lambda _: False) -> Portrait:
    """Describe `value`.

    `exact=False` leaves out strides and storage sharing, and lets numbers differ by rounding (compiling backends).
    `own` says for a class or function whether its insides are part of the state to compare.
    """
    found = Portrait(exact, own)
    with torch.no_grad(), torch._C.DisableTorchFunction():
        found.root = found.add(value)
    found.release()
    return found


def difference(a: Portrait, b: Portrait) -> str | None:
    """The first difference in words, or None.  Walks both portraits together from the root."""
    if a.exact and b.exact and a.root == b.root and a.nodes == b.nodes:  # data is bytes there, floats are text
        return None
    partners: dict[int, int] = {}
    taken: dict[int, int] = {}
    waiting: list[tuple[Any, Any]] = []
    if not _same(a.root, b.root, a.exact, waiting):
        return f"value: {a.root} != {b.root}"
    while waiting:
        i, j = waiting.pop()
        if i in partners or j in taken:
            if partners.get(i) == j:
                continue
            return f"{a.path(i)} and {b.path(j)}: the same object as another in one of the two only"
        partners[i], taken[j] = j, i
        found: list[tuple[Any, Any]] = []
        if not _same(a.nodes[i], b.nodes[j], a.exact, found):
            return f"{a.path(i)}: {_short(a.nodes[i])} != {_short(b.nodes[j])}"
        waiting += reversed(found)
    return None


def _same(p: Any, q: Any, exact: bool, found: list[tuple[Any, Any]]) -> bool:
    """Equal, child nodes put aside into `found` for later."""
    kind = type(p)
    if kind is not type(q):
        return isinstance(p, torch.Tensor) and isinstance(q, torch.Tensor) and _same_tensor(p, q, exact)
    if kind is Node:
        found.append((p, q))
        return True
    if kind is tuple:
        return len(p) == len(q) and all([_same(x, y, exact, found) for x, y in zip(p, q)])
    if kind is float or kind is complex:
        return repr(p) == repr(q) or not exact and abs(p - q) <= 1e-5 + 1e-4 * abs(q)
    if isinstance(p, torch.Tensor):
        return _same_tensor(p, q, exact)
    return bool(p == q)


def _same_tensor(p: torch.Tensor, q: torch.Tensor, exact: bool) -> bool:
    if p.shape != q.shape or p.dtype != q.dtype:
        return False
    if exact:
        return _bytes(p) == _bytes(q)
    return torch.allclose(p, q, rtol=1e-4, atol=1e-5, equal_nan=True)


def _bytes(t: torch.Tensor) -> bytes:
    """The data bit for bit, and 0.0 is not -0.0; but there is one NaN.

    Text has no sign for it, and kernels take either operand's.
    """
    if t.dtype.is_floating_point and t.dtype.itemsize > 1:
        t = torch.where(t.isnan(), float("nan"), t)
    return t.cpu().contiguous().resolve_conj().resolve_neg().flatten().view(torch.uint8).numpy().tobytes()


def _short(node: tuple[Any, ...]) -> str:
    return " ".join(repr(x) for x in node)[:300]


# -- one describer per kind of value -----------------------------------------------------------------------------------


def _leaf(value: Any) -> tuple[Any, ...]:
    if isinstance(value, enum.Enum):
        return "enum", type(value).__qualname__, value.name
    if isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
        return "builtin", getattr(value, "__qualname__", repr(value))
    if isinstance(value, types.CodeType):
        return "code", value.co_qualname, value.co_firstlineno, value.co_code
    if type(value) in SHOWN:
        return "value", type(value).__qualname__, repr(value)
    return "leaf", type(value).__qualname__, tuple(value) if isinstance(value, torch.Size) else value


def _class_name(self: Portrait, cls: type) -> Any:
    """Own classes exist once per world, so they are named, as are those made while the program runs.

    All others are themselves.
    """
    return (
        ("own", cls.__qualname__)
        if self.own(cls)
        else ("made", cls.__module__, cls.__qualname__)
        if _made(cls)
        else cls
    )


def _made(cls: type) -> bool:
    """Is a class none that its module has: made by a library for a class of the program."""
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not cls


def _has_no_history(t: torch.Tensor) -> bool | str:
    """Asking a view whose base was written in another mode raises."""
    try:
        return t.is_leaf
    except RuntimeError as error:
        return str(error)


def _tensor(self: Portrait, t: torch.Tensor) -> tuple[Any, ...]:
    wraps = is_traceable_wrapper_subclass(t)  # its data is that of its attributes
    data: Any = None if wraps else t.detach().clone() if t.layout is torch.strided else t.detach().to_dense()
    if self.exact and not wraps:
        data = tuple(data.shape), data.dtype, _bytes(data)
    facts = (
        _class_name(self, type(t)),
        t.device,
        t.layout,
        t.requires_grad,
        _has_no_history(t),
        t.is_conj(),
        t.is_neg(),
        t.is_inference(),
    )
    if self.exact and t.layout is torch.strided and not wraps:
        facts += (t.stride(), self.storage(t))
    grad = t.grad if _has_no_history(t) is True else None
    attributes = {
        name: value for name, value in (_attributes(t) or {}).items() if not name.startswith("_dynamo_")
    }  # AOTAutograd's own marks
    return "tensor", facts, data, self.add(grad), self.add(attributes or None)


def _sequence(self: Portrait, value: Any) -> tuple[Any, ...]:
    extra = (value.maxlen,) if isinstance(value, collections.deque) else ()
    return (
        "sequence",
        _class_name(self, type(value)),
        self.children(_raw_items(value)),
        self.add(_attributes(value)),
        *extra,
    )


def _raw_items(value: Any) -> list[Any]:
    base = next(b for b in (list, tuple, collections.deque) if isinstance(value, b))
    return list(base.__iter__(value))


def _mapping(self: Portrait, value: Any) -> tuple[Any, ...]:
    if type(value) is dict:
        if "__slotnames__" in value:  # what a class holds: a cache that copy and pickle keep there, as chance has it
            value = {k: v for k, v in value.items() if k != "__slotnames__"}
        return "mapping", dict, self.children(value), self.children(value.values(), value), None, None
    # An OrderedDict's own order is kept beside the dictionary's.
    base = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
    pairs = list(base.items(value))
    factory = self.add(value.default_factory) if isinstance(value, collections.defaultdict) else None
    return (
        "mapping",
        _class_name(self, type(value)),
        self.children((k for k, _ in pairs)),
        self.children((v for _, v in pairs), [k for k, _ in pairs]),
        factory,
        self.add(_attributes(value)),
    )


def _set(self: Portrait, value: Any) -> tuple[Any, ...]:
    # Order within a set is CPython's business; elements with identity are only counted, by class.
    elements = list((set if isinstance(value, set) else frozenset).__iter__(value))
    leaves = sorted(
        (type(v).__name__, f"{v:x}" if type(v) is int else repr(v)) for v in elements if isinstance(v, LEAVES)
    )
    others = sorted(type(v).__qualname__ for v in elements if not isinstance(v, LEAVES))
    return "set", _class_name(self, type(value)), tuple(leaves), tuple(others)


def _bytearray(_self: Portrait, value: bytearray) -> tuple[Any, ...]:
    return "bytearray", type(value), bytes(value)


def _stream(_self: Portrait, value: io.StringIO) -> tuple[Any, ...]:
    return "stream", without_addresses(value.getvalue()), value.tell()


def _array(_self: Portrait, value: array.array) -> tuple[Any, ...]:
    return "array", value.typecode, tuple(value)


def _numpy_array(self: Portrait, value: Any) -> tuple[Any, ...]:
    address = value.__array_interface__["data"][0] if value.size else 0
    place = self._storages.setdefault(address, len(self._storages)) if address and self.exact else None
    held = (
        self.children(value.ravel().tolist()) if value.dtype.hasobject else value.tobytes()
    )  # of objects the memory has only addresses
    return "numpy array", type(value), str(value.dtype), value.shape, held, place


def _numpy_scalar(_self: Portrait, value: Any) -> tuple[Any, ...]:
    return "numpy scalar", type(value), repr(value)


def _iterator(self: Portrait, value: Any) -> tuple[Any, ...]:
    """Where it stands, as it says itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CPython 3.12 says that it will not tell for ever
        try:
            state = value.__reduce__()
        except RuntimeError as error:  # of a table that has changed since: what `next` would say
            return "iterator", type(value), str(error)
        except TypeError:  # of itertools, since CPython 3.14
            held = [each for each in gc.get_referents(value) if not isinstance(each, type)]
            return "iterator", type(value), repr(value).partition(" object at")[0], self.children(held)
    return "iterator", type(value), self.children(state[1:])


def _function(self: Portrait, f: types.FunctionType) -> tuple[Any, ...]:
    if not self.own(f):
        return "function", f.__module__, f.__qualname__, f.__code__
    if f.__closure__ is None and f.__defaults__ is None and f.__kwdefaults__ is None and not f.__dict__:
        return "simple function", f.__name__, f.__qualname__, _leaf(f.__code__)
    if "_clear_cache" in f.__dict__:  # functools.singledispatch, whose cache is nobody's state
        return "dispatcher", f.__name__, self.add(dict(f.__dict__["registry"]))
    cells = [_cell(c) for c in f.__closure__ or ()]
    return (
        "function",
        f.__name__,
        f.__qualname__,
        self.add(f.__code__),
        self.children(cells),
        self.add(f.__defaults__),
        self.add(f.__kwdefaults__),
        self.add({k: v for k, v in f.__dict__.items() if k != "_torchdynamo_wrapper_id"}),
    )  # an address


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "(empty cell)"


def _method(self: Portrait, m: types.MethodType) -> tuple[Any, ...]:
    return "method", self.add(m.__func__), self.add(m.__self__)


def _partial(self: Portrait, p: functools.partial) -> tuple[Any, ...]:
    return "partial", self.add(p.func), self.add(p.args), self.add(p.keywords)


#: what Python itself puts into a class
_CLASS_NOISE = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__annotations__",
        "__abstractmethods__",
        "_abc_impl",
        "__slotnames__",  # the last: a cache that copy and pickle keep
        "__firstlineno__",
        "__static_attributes__",
        "__classcell__",
    }
)


def _class(self: Portrait, cls: type) -> tuple[Any, ...]:
    if not self.own(cls):
        return "class", _class_name(self, cls)
    contents = {
        k: v for k, v in cls.__dict__.items() if k not in _CLASS_NOISE and type(v) is not types.MemberDescriptorType
    }
    return (
        "own class",
        cls.__qualname__,
        self.children(cls.__bases__),
        tuple(contents),
        self.children(contents.values(), contents),
    )


def _module(self: Portrait, m: types.ModuleType) -> tuple[Any, ...]:
    if not self.own(m):
        return "module", m.__name__
    contents = {k: v for k, v in vars(m).items() if not k.startswith("__")}
    return "own module", m.__name__, tuple(contents), self.children(contents.values(), contents)


def _descriptor(self: Portrait, d: Any) -> tuple[Any, ...]:
    names = ("fget", "fset", "fdel") if isinstance(d, property) else ("__func__",)
    return ("descriptor", type(d).__name__, *(self.add(getattr(d, n)) for n in names))


def _exception(self: Portrait, e: BaseException) -> tuple[Any, ...]:
    return (
        "exception",
        _class_name(self, type(e)),
        self.add(e.args),
        self.add(e.__cause__),
        self.add(e.__context__),
        e.__suppress_context__,
        self.add(_attributes(e)),
    )


def _told(self: Portrait, value: Any) -> tuple[Any, ...]:
    return "told", type(value), without_addresses(repr(value))


def _proxy(self: Portrait, value: Any) -> tuple[Any, ...]:
    try:
        return "proxy", self.add(value.__repr__.__self__)
    except ReferenceError:
        return "proxy", None


def _memory(self: Portrait, value: Any) -> tuple[Any, ...]:
    return "memory", _class_name(self, type(value)), bytes(value), self.add(_attributes(value))


def _instance(self: Portrait, value: Any) -> tuple[Any, ...]:
    return "instance", _class_name(self, type(value)), self.add(_attributes(value))


def _attributes(value: Any) -> dict[str, Any] | None:
    """The instance's own attributes, raw: instance dictionary and filled slots."""
    found: dict[str, Any] = {}
    try:
        found.update(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        pass
    for name, member in _slots(type(value)):
        try:
            found[name] = member.__get__(value)
        except (AttributeError, TypeError):
            pass
    return found or None


@functools.lru_cache(maxsize=512)
def _slots(cls: type) -> list[tuple[str, Any]]:
    """Member descriptors of __slots__, which Python classes (heap types) alone have."""
    return [
        (f"{c.__name__}.{name}", member)
        for c in cls.__mro__
        if c.__flags__ & (1 << 9)
        for name, member in vars(c).items()
        if isinstance(member, types.MemberDescriptorType)
    ]


#: in order, the first that fits; classes of the standard library before the general instance
DESCRIBERS: list[tuple[Any, Callable[[Portrait, Any], tuple[Any, ...]]]] = [
    (torch.Tensor, _tensor),
    ((list, tuple, collections.deque), _sequence),
    (dict, _mapping),
    ((set, frozenset), _set),
    (bytearray, _bytearray),
    (io.StringIO, _stream),
    (array.array, _array),
    (numpy.ndarray, _numpy_array),
    (numpy.generic, _numpy_scalar),
    (ITERATORS, _iterator),
    (types.FunctionType, _function),
    (types.MethodType, _method),
    (functools.partial, _partial),
    ((property, classmethod, staticmethod), _descriptor),
    (type, _class),
    (types.ModuleType, _module),
    (BaseException, _exception),
    (weakref.ProxyTypes, _proxy),
    (TOLD, _told),
    ((ctypes.Structure, ctypes.Array, ctypes._SimpleCData), _memory),
]
