"""The record of a kind of external object, and the changes that many kinds share."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Change", "Kind", "bodies", "changes", "instance_changes"]


@dataclass(frozen=True)
class Change:
    """What happens to an object between two calls, and how it is taken back.

    Both are statements; `$` stands for the object.  Without `undo` a fresh object is put at its place.  `inside` says
    whether captured code may do it too: the object's place is not among what it changes.
    """

    name: str
    do: str
    undo: str = "PUT(MAKE())"
    inside: bool = True


@dataclass(frozen=True)
class Kind:
    """A kind of object: `setup` are statements that make what it needs, `make` is the expression of a fresh one.

    `attr` and `key` are the attribute and the index that reads ask for, `item` is what `in` looks for.
    """

    name: str
    setup: str
    make: str
    changes: tuple[Change, ...] = ()
    attr: str = "k"
    key: str = "0"
    item: str = "2"
    endless: bool = False  # going through it does not end
    avoid: tuple[str, ...] = field(default=())  # reads that are no statement about framelift: each kind says why


def changes(*rows: tuple[str, ...]) -> tuple[Change, ...]:
    """Rows of (name, do) or (name, do, undo)."""
    return tuple(Change(*row) for row in rows)


def bodies(*rows: tuple[str, ...]) -> tuple[Change, ...]:
    """Changes of code, classes and other things that only the world around a program makes."""
    return tuple(Change(*row, inside=False) if len(row) > 2 else Change(row[0], row[1], inside=False) for row in rows)


def instance_changes(cls: str = "type($)", value: str = "2") -> tuple[Change, ...]:
    """What can happen to an instance whose attribute `k` holds 2, whose class is `cls` and has a method `m`."""
    return changes(
        ("set", "$.k = 5", f"$.k = {value}"),
        ("as float", "$.k = 2.0", f"$.k = {value}"),
        ("as text", "$.k = 'two'", f"$.k = {value}"),
        ("delete", "del $.k", f"$.k = {value}"),
        ("add", "$.missing = 9", "del $.missing"),
    ) + bodies(
        ("class attribute", f"{cls}.k = 7", f"del {cls}.k"),
        ("class missing", f"{cls}.missing = 8", f"del {cls}.missing"),
        ("class property", f"{cls}.k = property(lambda self: 77)", f"del {cls}.k"),
        ("patch method", f"OLD = {cls}.m; {cls}.m = lambda self: 55", f"{cls}.m = OLD"),
        (
            "method code",
            f"OLD = {cls}.m.__code__; {cls}.m.__code__ = (lambda self: 56).__code__",
            f"{cls}.m.__code__ = OLD",
        ),
        ("getattr", f"{cls}.__getattr__ = lambda self, name: 'made ' + name", f"del {cls}.__getattr__"),
        (
            "special methods",
            f"{cls}.__len__ = lambda self: 3; {cls}.__getitem__ = lambda self, i: (4, 5, 6)[i]; "
            f"{cls}.__eq__ = lambda self, other: True",
            f"del {cls}.__len__, {cls}.__getitem__, {cls}.__eq__; {cls}.__hash__ = object.__hash__",
        ),
        ("class of", "$.__class__ = D", "$.__class__ = C"),
    )
