"""Guards on what tensors hold, as data, and back: the values themselves, or what follows from them."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from ..recording.known_values import ResultPart, SameResult
from ..vocabulary.written_forms import NotKept
from .plain_values import leaf_data, leaf_of
from .refusals import NotMine

if TYPE_CHECKING:
    from .record_reader import Reader
    from .record_writer import RecordWriter

#: the name of these checks in records
VALUE_CHECK = "result"
_MOST = 4096  # elements of a tensor
_MEMBERS = (types.MethodDescriptorType, types.WrapperDescriptorType)


def value_check_data(writer: RecordWriter, check: Any, words: str) -> Any:
    """The data of a check; None where it is none of these."""
    if type(check) is not SameResult:
        return None
    program = [
        [
            _function(writer, func),
            [_argument(arg) for arg in args],
            [[name, leaf_data(kwargs[name])] for name in kwargs],
        ]
        for func, args, kwargs in check.program
    ]
    facts = [[leaf_data(shape), leaf_data(dtype)] for shape, dtype in check.facts]
    return [VALUE_CHECK, [facts, program, check.words, _tensor(check.expected)], words]


def value_check(reader: Reader, data: Any) -> tuple[Any, str]:
    """The check of such data, and its words."""
    _, (facts, program, said, expected), words = data
    made = SameResult((), [], _tensor_of(expected))
    made.facts = [(leaf_of(shape), leaf_of(dtype)) for shape, dtype in facts]
    made.program = [
        (
            _function_of(reader, func),
            [_argument_of(arg) for arg in args],
            {name: leaf_of(value) for name, value in kwargs},
        )
        for func, args, kwargs in program
    ]
    made.words = said
    return made, words


def _tensor(tensor: torch.Tensor) -> list[Any]:
    if tensor.numel() > _MOST or type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
        raise NotKept("a guard holds a large tensor")
    plain = tensor.detach().cpu().contiguous()
    content = bytes(plain.reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""
    return [leaf_data(tensor.dtype), list(tensor.shape), str(tensor.device), content.hex()]


def _tensor_of(data: Any) -> torch.Tensor:
    dtype, shape, device, content = data
    plain = torch.tensor(list(bytes.fromhex(content)), dtype=torch.uint8).view(leaf_of(dtype)).reshape(shape)
    return plain.to(device)


def _function(writer: RecordWriter, function: Any) -> list[Any]:
    if type(function) in _MEMBERS:
        return ["member", writer.object(function.__objclass__), function.__name__]
    return ["function", writer.named(function)]


def _function_of(reader: Reader, data: Any) -> Any:
    if data[0] == "function":
        return reader.object(data[1])
    found = vars(reader.object(data[1])).get(data[2])
    if type(found) not in _MEMBERS:
        raise NotMine(f"{data[2]} is not there")
    return found


def _argument(arg: Any) -> Any:
    if type(arg) in (list, tuple):
        return [type(arg).__name__, [_argument(one) for one in arg]]
    if type(arg) is ResultPart:
        return ["place", [arg.index, leaf_data(arg.path)]]
    return ["leaf", leaf_data(arg)]


def _argument_of(data: Any) -> Any:
    tag, rest = data
    if tag in ("list", "tuple"):
        return (list if tag == "list" else tuple)(map(_argument_of, rest))
    return ResultPart(rest[0], leaf_of(rest[1])) if tag == "place" else leaf_of(rest)
