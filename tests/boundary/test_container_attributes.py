"""Attributes of instances whose classes are made from built-in ones.

Written where the program keeps them, never lost, never before the call.
"""

import collections
import decimal
import fractions
import types

import pytest
import torch

import framelift


class Row(tuple):
    pass


class Named(collections.namedtuple("Pair", "u v")):
    pass


class Frozen(frozenset):
    pass


class Numbers(list):
    __slots__ = ("a",)


class Table(dict):
    __slots__ = ("a",)


class Text(str):
    pass


class Whole(int):
    pass


class Ratio(fractions.Fraction):
    pass


class Names(types.SimpleNamespace):
    pass


class Many(set):
    pass


class Queue(collections.deque):
    pass


class Trouble(ValueError):
    pass


class Slots:
    __slots__ = ("a", "new", "gone")


MAKERS = {
    "tuple": lambda: Row((1, 2)),
    "empty tuple": Row,
    "named tuple": lambda: Named(1, 2),
    "frozenset": lambda: Frozen([1]),
    "list with slots": lambda: Numbers([1]),
    "dict with slots": lambda: Table(k=1),
    "str": lambda: Text("t"),
    "int": lambda: Whole(4),
    "fraction": lambda: Ratio(1, 2),
    "namespace": lambda: Names(z=1),
    "set": lambda: Many([1]),
    "deque": lambda: Queue([1]),
    "exception": lambda: Trouble("t"),
    "slots": Slots,
    "function": lambda: lambda: 1,
    "tensor": lambda: torch.ones(2),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
}


def _run(make, compiled):
    kept = make()
    kept.a = 1

    def program(x):
        reported = [kept.a]
        kept.a = reported[0] + 1
        for name in ("new", "gone"):
            try:
                setattr(kept, name, x + 1)
            except AttributeError as error:
                reported.append(type(error))
        for _ in range(2):
            try:
                del kept.gone
            except AttributeError as error:
                reported.append(str(error))
        return x * kept.a, reported, kept

    run, seen = framelift.compile(program, backend="eager") if compiled else program, []
    for step in range(4):
        result, reported, same = run(torch.full((2,), float(step)))
        new = getattr(kept, "new", None)
        seen.append(
            (
                result.tolist(),
                reported,
                same is kept,
                kept.a,
                new if new is None else new.tolist(),
                hasattr(kept, "gone"),
            )
        )
        kept.a = step * 10
    return seen


@pytest.mark.parametrize("name", list(MAKERS))
def test_attributes_are_written(name):
    assert _run(MAKERS[name], True) == _run(MAKERS[name], False)


def test_attributes_of_a_tuple_deleted_and_replaced():
    def run(compile_it):
        row = Row((1, 2))
        row.a, row.b = [1], 2

        def program(x):
            row.a.append(3)
            had = row.__dict__.pop("b", None)
            row.__dict__["c"] = had
            return x + len(row.a), sorted(vars(row))

        call = framelift.compile(program, backend="eager") if compile_it else program
        return [(call(torch.ones(2))[1], dict(vars(row))) for _ in range(3)]

    assert run(True) == run(False)


def test_a_tensor_s_attribute_is_gone_once_deleted():
    tensor = torch.ones(2)
    tensor.tag = 5

    def program(x):
        reported = [hasattr(tensor, "tag")]
        del tensor.tag
        reported.append(hasattr(tensor, "tag"))
        tensor.tag = 6
        return x + tensor, [*reported, tensor.tag]

    compiled = framelift.compile(program, backend="eager")
    for _ in range(3):
        assert compiled(torch.ones(2))[1] == [True, False, 6] and tensor.tag == 6


@pytest.mark.parametrize("cls", [types.SimpleNamespace, collections.deque, dict, Row, torch.Tensor])
def test_what_a_class_has_not(cls):
    def program(x):
        try:
            return cls.nope
        except AttributeError as error:
            return x + 1, str(error)

    assert framelift.compile(program, backend="eager")(torch.ones(2))[1] == program(torch.ones(2))[1]


class Guarded(tuple):
    size = property(lambda self: vars(self).get("size", 0) * 2)


@pytest.mark.parametrize(
    "make",
    [lambda: Guarded((1, 2)), lambda: type("Listed", (list,), {"size": Guarded.size})([1])],
    ids=["tuple", "list"],
)
def test_an_entry_behind_a_property_is_written_to_the_dictionary(make):
    kept = make()

    def program(x):
        vars(kept)["size"] = vars(kept).get("size", 0) + 3
        return x + kept.size

    compiled = framelift.compile(program, backend="eager")
    for step in range(1, 4):
        assert compiled(torch.zeros(2)).tolist() == [6.0 * step] * 2 and kept.size == 6 * step
