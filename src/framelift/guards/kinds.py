"""The kinds of guards: each a predicate on the value at an origin, as data.

`KINDS` is the one list: name -> plain Python meaning.  The native program (csrc/guard_checks.cpp) implements the same
names; tests run both and compare.  What a failing guard says in words is in sentences.py.

A predicate that raises does not hold.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..vocabulary.class_reads import built_in_member, members_of, module_of, mro_of, qualname_of
from ..vocabulary.origins import Origin
from ..vocabulary.plain_types import PYTHON_CONSTANTS, SINGLETONS, TORCH_CONSTANTS
from .equality import indistinguishable
from .special_names import behaviour_of


class Guard(_core.Predicate):
    """One predicate: the value at `origin` satisfies `kind` with `value`.  Frozen.

    `line` is the user line whose read made it, for explanations: a text ("file.py:12 in forward"), or (code, offset of
    the instruction), which is turned into that text only when somebody asks; ~n as offset means the first use of local
    n.
    """

    __slots__ = ()
    origin: Origin

    def __str__(self) -> str:
        return f"{self.origin} {self.kind} {self.value!r}"


@dataclass(slots=True, unsafe_hash=True)  # not frozen: that would take five times as long to make
class TensorFacts:
    """The fields that a tensor guard compares. Never changed. `python_type` is compared by identity, others by
    equality.

    An entry None in `size` or `stride` is not compared; `stride` None as a whole neither.
    """

    python_type: type
    dtype: Any
    device: Any
    layout: Any
    size: tuple[int | None, ...]
    stride: tuple[int | None, ...] | None
    requires_grad: bool
    is_leaf: bool
    keys: int  # raw dispatch key set, as torch._C._dispatch_keys(t).raw_repr()
    is_conj: bool
    is_neg: bool
    is_inference: bool
    has_grad: bool | None  # None: not asked
    marks: frozenset[int] | None = None  # None: not asked; else no other dimensions are declared dynamic
    methods: tuple[str, ...] = ()  # methods that no attribute of the tensor itself hides


#: classes whose C methods nothing but an attribute of the tensor itself can hide
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


_SIMPLE = frozenset((*PYTHON_CONSTANTS, *TORCH_CONSTANTS, *SINGLETONS, range, types.CodeType))


def immutable_leaf(value: Any) -> bool:
    """Return whether nothing about the value can ever change, so that its identity implies its value."""
    cls = type(value)
    if cls in _SIMPLE:
        return True
    if cls is slice:
        return all(map(immutable_leaf, (value.start, value.stop, value.step)))
    return cls in (tuple, torch.Size, frozenset) and all(map(immutable_leaf, value))


# ---- tensors --------------------------------------------------------------------------------------------------------


def tensor_facts(tensor: torch.Tensor, *, ask_grad: bool = False, ask_marks: bool = False) -> TensorFacts:
    """The facts of a real tensor.  `ask_grad`: also whether it has a gradient; `ask_marks`: also the user's marks."""
    kind = type(tensor)
    is_usual = (kind is torch.nn.Parameter or kind is torch.Tensor) and not ask_grad and not ask_marks
    key = _core.tensor_key(tensor) if is_usual else None
    if key is None:
        return _read_facts(tensor, ask_grad, ask_marks)
    known = _known_facts[kind is torch.Tensor]
    found = known.get(key)
    if found is None:
        found = known[key] = _read_facts(tensor)
    return found


#: the facts of parameters, and of tensors, that say the same of themselves, for one capture; models have hundreds of
#: each kind
_known_facts: tuple[dict[bytes, TensorFacts], dict[bytes, TensorFacts]] = {}, {}


def forget_facts() -> None:
    """A capture is over."""
    for known in (*_known_facts, _known_methods):
        known.clear()


def _read_facts(tensor: torch.Tensor, ask_grad: bool = False, ask_marks: bool = False) -> TensorFacts:
    read = _core.of_tensor
    try:
        stride = read(tensor, "stride")
    except RuntimeError:  # layouts without strides
        stride = None
    return TensorFacts(
        type(tensor),
        read(tensor, "dtype"),
        read(tensor, "device"),
        read(tensor, "layout"),
        tuple(read(tensor, "size")),
        stride,
        read(tensor, "requires_grad"),
        read(tensor, "is_leaf"),
        _core.tensor_keys(tensor),
        read(tensor, "is_conj"),
        read(tensor, "is_neg"),
        read(tensor, "is_inference"),
        _core.has_grad(tensor) if ask_grad else None,
        _marks(tensor) if ask_marks else None,
    )


_known_methods: dict[tuple[int, str], tuple[TensorFacts, TensorFacts]] = {}  # with the facts that keep the id


def with_method(facts: TensorFacts, name: str) -> TensorFacts:
    """The facts, and that no attribute of the tensor itself hides a method."""
    known = _known_methods.get((id(facts), name))
    if known is None:
        made = dataclasses.replace(facts, methods=(*facts.methods, name))
        known = _known_methods[id(facts), name] = facts, made
    return known[1]


def without_entries(facts: TensorFacts, dims: frozenset[int], strides: frozenset[int]) -> TensorFacts:
    """The facts without the sizes and strides that are symbolic: relations speak of those."""
    size = tuple(None if i in dims else n for i, n in enumerate(facts.size))
    stride = None if facts.stride is None else tuple(None if i in strides else n for i, n in enumerate(facts.stride))
    return dataclasses.replace(facts, size=size, stride=stride)


def _marks(tensor: torch.Tensor) -> frozenset[int]:
    """The dimensions that mark_dynamic declared, framelift's or torch's."""
    rank = _core.of_tensor(tensor, "dim")
    return frozenset(
        dim % rank for dim in _core.own_dict(tensor).get("_dynamo_dynamic_indices", ()) if -rank <= dim < rank
    )


_SCALAR_FACTS = ("dtype", "device", "layout", "requires_grad", "is_leaf", "keys", "is_conj", "is_neg", "is_inference")


def _entries_agree(expected: tuple[int | None, ...], actual: tuple[int | None, ...] | None) -> bool:
    return (
        actual is not None
        and len(expected) == len(actual)
        and all(e is None or e == a for e, a in zip(expected, actual))
    )


def tensor_agrees(value: Any, facts: TensorFacts) -> bool:
    """Return whether `value` is a tensor of these facts."""
    if type(value) is not facts.python_type:
        return False
    now = tensor_facts(value, ask_grad=facts.has_grad is not None, ask_marks=facts.marks is not None)
    if any(name in _core.own_dict(value) for name in facts.methods):
        return False
    if now.marks is not None and not now.marks <= facts.marks:  # type: ignore[operator]  # both are asked for
        return False
    return (
        all(getattr(now, name) == getattr(facts, name) for name in _SCALAR_FACTS)
        and now.has_grad == facts.has_grad
        and _entries_agree(facts.size, now.size)
        and (facts.stride is None or _entries_agree(facts.stride, now.stride))
    )


# ---- containers -----------------------------------------------------------------------------------------------------


def builtin_length(value: Any) -> int:
    """The length of the built-in part of a container, whatever a subclass makes of `__len__`."""
    length = built_in_member(type(value), "__len__")
    return len(value) if length is None else int(length(value))


def dict_keys(value: dict[Any, Any]) -> tuple[Any, ...]:
    """A dictionary's own keys in its own order, whatever a subclass makes of iteration."""
    return tuple(built_in_member(type(value), "__iter__")(value))


class TensorKey:
    """Stands for any tensor in the keys that are expected: which one it is, its place tells."""


_core.connect(tensor_key=TensorKey)


def same_key(key: Any, expected: Any) -> bool:
    """Return whether a key is as expected."""
    if expected is TensorKey:
        return is_a(key, torch.Tensor)
    return key is expected or (immutable_leaf(expected) and indistinguishable(key, expected))


def _keys(value: Any, expected: tuple[Any, ...]) -> bool:
    if not is_a(value, dict):
        return False
    keys = dict_keys(value)
    return len(keys) == len(expected) and all(map(same_key, keys, expected))


def _absent(value: Any, key: Any) -> bool:
    return not dict.__contains__(value, key) if is_a(value, dict) else key not in value


# ---- classes --------------------------------------------------------------------------------------------------------

#: the name of a class, read without its metaclass
class_name = qualname_of


def full_name(cls: type) -> str:
    """Module and name of a class, read without its metaclass."""
    return f"{module_of(cls)}.{class_name(cls)}"


def dunders(cls: type) -> tuple[tuple[type, ...], tuple[tuple[str, Any], ...]]:
    """The class's MRO, and the behaviour (special_names) that its Python-made classes define."""
    return mro_of(cls), behaviour_of(cls)


def _dunders(value: Any, expected: tuple[tuple[type, ...], tuple[tuple[str, Any], ...]]) -> bool:
    if not is_a(value, type):
        return False
    mro, pairs = dunders(value)
    return (
        len(mro) == len(expected[0])
        and all(a is b for a, b in zip(mro, expected[0]))
        and len(pairs) == len(expected[1])
        and all(a == b and same_key(x, y) for (a, x), (b, y) in zip(pairs, expected[1]))
    )


def _no_lookup(value: Any, name: str) -> bool:
    return is_a(value, type) and not any(name in members_of(base) for base in mro_of(value))


# ---- the table ------------------------------------------------------------------------------------------------------


def _unmarked(value: Any, names: tuple[str, ...]) -> bool:
    """None of TorchDynamo's sets of ids, named by their module and variables, has the value's."""
    module = sys.modules.get(names[0])
    sets = [getattr(getattr(module, name, None), "function_ids", None) for name in names[1:]]
    return not any(ids is not None and id(value) in ids for ids in sets)


KINDS: dict[str, Callable[[Any, Any], bool]] = {
    "TYPE": lambda v, cls: type(v) is cls,
    "IS": lambda v, obj: v is obj,
    "EQ": indistinguishable,
    "CODE": lambda v, code: type(v) is types.FunctionType and v.__code__ is code,
    "LEN": lambda v, n: builtin_length(v) == n,
    "KEYS": _keys,
    "HAS_KEY": lambda v, key: is_a(v, dict) and any(one is key for one in dict_keys(v)),
    "ABSENT": _absent,
    "NO_LOOKUP": _no_lookup,
    "DUNDERS": _dunders,
    "EMPTY": lambda v, _: type(v) is types.CellType and v == types.CellType(),  # no contents are compared
    "TENSOR": tensor_agrees,
    "SAME": lambda v, other: v is other,  # the other value, once its origin was followed
    "CHECK": lambda v, check: bool(check[0](v)),
    "JOINT": lambda v, check: bool(check[0](v, *check[2])),  # the other values, once their origins were followed
    "UNMARKED": _unmarked,
}
