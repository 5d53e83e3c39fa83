"""What captured code reads from a class is guarded, and what it writes to one is done once, whatever the class is.

Each program runs plainly on a fresh class and captured on another; what comes out must be the same after every change.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from class_kinds import KINDS, SHARED

X = torch.ones(3)
_NAMES = ("k", "n", "fresh", "t", "entries")


@pytest.fixture(autouse=True)
def _unpatched() -> Iterator[None]:
    yield
    _clean()


def _clean() -> None:
    for cls in SHARED:
        for name in _NAMES:
            if name in vars(cls):
                delattr(cls, name)


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        result = call()
    except Exception as error:
        return type(error).__name__, str(error)
    return result.tolist() if type(result) is torch.Tensor else result


def _scale(value: Any) -> Any:
    if isinstance(value, (int, float, torch.Tensor)):
        return value
    return len(value) if isinstance(value, list) else value()


def _derived(cls: Any) -> Any:
    try:
        return types.new_class("Derived", (cls,))
    except TypeError:  # an enumeration is final
        return cls


READS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "dot": lambda W: lambda x: x * _scale(W.k),
    "getattr": lambda W: lambda x: x * _scale(getattr(W, "k")),
    "default": lambda W: lambda x: x * _scale(getattr(W, "k", 55)),
    "hasattr": lambda W: lambda x: x * (3 if hasattr(W, "k") else 5),
    "vars": lambda W: lambda x: x * _scale(vars(W)["k"]),
    "get": lambda W: lambda x: x * _scale(vars(W).get("k", 7)),
    "in": lambda W: lambda x: x * (3 if "k" in W.__dict__ else 5),
    "names": lambda W: lambda x: x * len(list(W.__dict__)),
    "derived": lambda W: lambda x, derived=_derived(W): x * _scale(derived.k),
    "type": lambda W: lambda x: x * _scale(type.__getattribute__(W, "k")),
    "dir": lambda W: lambda x: x * (3 if "k" in dir(W) else 5),
}


def _set(value: Any) -> Callable[[Any], None]:
    def change(cls: Any) -> None:
        cls.k = value() if callable(value) else value

    return change


def _delete(cls: Any) -> None:
    del cls.k


def _append(cls: Any) -> None:
    cls.k.append(1)


CHANGES: dict[str, list[Callable[[Any], None]]] = {
    "set": [_set(4)],
    "deleted": [_delete, _set(4), _delete],
    "list": [_set(lambda: [1, 2]), _append],
    "tensor": [_set(lambda: torch.full((3,), 6.0)), _set(4)],
    "static": [_set(lambda: staticmethod(lambda: 9)), _set(4)],
    "class method": [_set(lambda: classmethod(lambda cls: 10))],
}


@pytest.mark.parametrize("kind", KINDS)
def test_reads(kind: str) -> None:
    for read, make_program in READS.items():
        for change, changes in CHANGES.items():
            framelift.reset()
            found = [
                _seen(KINDS[kind], make_program, changes, wrap)
                for wrap in (lambda f: f, lambda f: framelift.compile(f, backend="eager"))
            ]
            assert found[0] == found[1], (read, change)


def _seen(make: Any, make_program: Any, changes: Any, wrap: Any) -> list[Any]:
    _clean()
    cls = make()
    program = wrap(make_program(cls))
    out = [_outcome(lambda: program(X)), _outcome(lambda: program(X))]
    for change in changes:
        out += [_outcome(lambda: change(cls)), _outcome(lambda: program(X))]
    return out


def _counts(W: Any) -> Any:
    W.n = 0

    def program(x: Any) -> Any:
        W.n += 1
        return x + W.n

    return program


def _counts_and_raises(W: Any) -> Any:
    W.n = 0

    def program(x: Any) -> Any:
        W.n += 1
        raise ValueError("no")

    return program


def _counts_and_handles(W: Any) -> Any:
    W.n = 0

    def program(x: Any) -> Any:
        try:
            W.n += 1
            raise ValueError("no")
        except ValueError:
            W.n += 10
        return x * W.n

    return program


def _adds(W: Any) -> Any:
    def program(x: Any) -> Any:
        W.fresh = 5
        return x * W.fresh

    return program


def _sets_tensor(W: Any) -> Any:
    def program(x: Any) -> Any:
        W.t = x + 1
        return W.t * 2

    return program


def _changes_tensor(W: Any) -> Any:
    W.t = torch.full((3,), 2.0)

    def program(x: Any) -> Any:
        W.t.add_(1)
        return x * W.t

    return program


def _deletes(W: Any) -> Any:
    W.n = 0

    def program(x: Any) -> Any:
        if hasattr(W, "n"):
            del W.n
        else:
            W.n = 1
        return x * (3 if hasattr(W, "n") else 5)

    return program


def _sets_and_deletes(W: Any) -> Any:
    def program(x: Any) -> Any:
        setattr(W, "n", 1)
        delattr(W, "n")
        return x + (1 if hasattr(W, "n") else 2)

    return program


def _deletes_nothing(W: Any) -> Any:
    def program(x: Any) -> Any:
        del W.missing
        return x

    return program


def _appends(W: Any) -> Any:
    W.entries = []

    def program(x: Any) -> Any:
        W.entries.append(1)
        return x * len(W.entries)

    return program


def _renames(W: Any) -> Any:
    if W in SHARED:
        return None

    def program(x: Any) -> Any:
        W.__name__ = W.__name__ + "x"
        W.__doc__ = W.__name__
        return x * len(W.__doc__) + len(W.__qualname__) + len(W.__module__)

    return program


def _of_derived(W: Any) -> Any:
    derived = _derived(W)
    W.n = 1

    def program(x: Any) -> Any:
        derived.n = derived.n + 1
        return x * derived.n * W.n

    return program


def _of_inner(W: Any) -> Any:
    if isinstance(W, enum.EnumMeta):
        return None
    W.n = 1

    def program(x: Any) -> Any:
        class Inner(W):  # type: ignore[misc]
            pass

        before = Inner.n
        W.n = W.n + 1
        return x * Inner.n + before

    return program


def _special(W: Any) -> Any:
    if W in SHARED:
        return None

    def program(x: Any) -> Any:
        W.__len__ = lambda self: 3
        return x * 2

    return program


WRITES = (
    _counts,
    _counts_and_raises,
    _counts_and_handles,
    _adds,
    _sets_tensor,
    _changes_tensor,
    _deletes,
    _sets_and_deletes,
    _deletes_nothing,
    _appends,
    _renames,
    _of_derived,
    _of_inner,
    _special,
)


@pytest.mark.parametrize("kind", KINDS)
def test_writes(kind: str) -> None:
    for make_program in WRITES:
        framelift.reset()
        found = [
            _done(KINDS[kind], make_program, wrap)
            for wrap in (lambda f: f, lambda f: framelift.compile(f, backend="eager"))
        ]
        assert found[0] == found[1], make_program.__name__


def _done(make: Any, make_program: Any, wrap: Any) -> list[Any]:
    _clean()
    cls = make()
    plain = make_program(cls)
    if plain is None:
        return []
    program = wrap(plain)
    out = []
    for _ in range(4):
        out.append(_outcome(lambda: program(X)))
        out.append([cls.__name__, cls.__doc__, *(_outcome(lambda: vars(cls).get(name, "none")) for name in _NAMES)])
    return out


@pytest.mark.parametrize("kind", ["tensor", "parameter", "abstract", "metaclass of a metaclass", "on Tensor"])
def test_writes_need_no_break(kind: str) -> None:
    for make_program in (_counts, _adds, _appends):
        _clean()
        program = framelift.compile(make_program(KINDS[kind]()), backend="eager", fullgraph=True)
        for _ in range(3):
            program(X)


def test_other_bases() -> None:
    class A(torch.Tensor):
        k = 2

    class B(torch.Tensor):
        k = 3

    class W(A):
        @classmethod
        def scaled(cls, x: Any) -> Any:
            return x * cls.k + super().k

    program = framelift.compile(lambda x: W.scaled(x), backend="eager")
    assert program(X).tolist() == [4, 4, 4]
    W.__bases__ = (B,)
    assert program(X).tolist() == [6, 6, 6]
    W.k = 5
    assert program(X).tolist() == [8, 8, 8]


def test_an_inner_class_finds_what_its_bases_get_later() -> None:
    class A:
        pass

    class B:
        k = 3

    def program(x: Any) -> Any:
        class Inner(A, B):
            pass

        return x * Inner.k + (10 if hasattr(Inner, "other") else 0)

    compiled = framelift.compile(program, backend="eager")
    assert compiled(X).tolist() == [3, 3, 3]
    A.k = 4  # type: ignore[attr-defined]
    assert compiled(X).tolist() == [4, 4, 4]
    B.other = 1  # type: ignore[attr-defined]
    assert compiled(X).tolist() == [14, 14, 14]


def test_instances_see_what_their_class_is_given_inside() -> None:
    class W:
        k = 2

    def program(x: Any) -> Any:
        class Inner(W):
            pass

        one = Inner()
        before = one.k
        Inner.k = 5
        return x * before + one.k

    compiled = framelift.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(X).tolist() == program(X).tolist() == [7, 7, 7]


def test_a_generic_alias_reads_its_class() -> None:
    class W:
        k = 2
        __class_getitem__ = classmethod(types.GenericAlias)

    alias = W[int]  # type: ignore[misc]
    compiled = framelift.compile(lambda x: x * alias.k * len(alias.__args__), backend="eager")
    assert compiled(X).tolist() == [2, 2, 2]
    W.k = 3
    assert compiled(X).tolist() == [3, 3, 3]


def test_cells_read_as_attributes() -> None:
    def outer(k: Any) -> Any:
        def root(x: Any) -> Any:
            def inner() -> Any:
                return k

            cell = inner.__closure__[0]  # type: ignore[index]
            before = len(cell.cell_contents)
            cell.cell_contents = [*cell.cell_contents, 1]
            return x * before + len(k)

        return root, lambda: k

    plain, seen = outer([1])
    captured, now = outer([1])
    compiled = framelift.compile(captured, backend="eager")
    for _ in range(3):
        assert compiled(X).tolist() == plain(X).tolist()
        assert now() == seen()
