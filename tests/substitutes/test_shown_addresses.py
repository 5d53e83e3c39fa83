"""Texts that show addresses: those of external objects are facts, guarded by identity; those of objects made inside are
not known.
"""

from __future__ import annotations

import collections
import datetime
import functools
import shutil
import types

import pytest
import torch

import framelift
from support import check, compiled, counts


def first(x):
    return x


def second(x):
    return x


class Plain:
    """Its text is object's own."""


def test_the_text_of_an_external_function() -> None:
    def f(x):
        text = f"{first!r} %r {first}" % first
        return x + text.count("first") + len(repr([first])) - len(repr(functools.partial(first, 1))), text

    x = torch.ones(2)
    c = framelift.compile(f, backend="eager")
    for _ in range(2):
        assert c(x)[1] == f(x)[1] and torch.equal(c(x)[0], f(x)[0])
    check(lambda x: x + len(repr(first)), torch.ones(2), graphs=None, breaks=None)


def test_another_function_or_name_is_another_text() -> None:
    held = [first]

    def f(x):
        return x + 1, repr(held[0])

    c = framelift.compile(f, backend="eager")
    x = torch.ones(2)
    assert c(x)[1] == repr(first)
    held[0] = second
    assert c(x)[1] == repr(second)
    second.__qualname__ = "renamed"
    try:
        assert c(x)[1] == repr(second) and "renamed" in c(x)[1]
    finally:
        second.__qualname__ = "second"
    assert c(x)[1] == repr(second)


def test_the_text_of_external_objects_inside_containers() -> None:
    def f(x, p):
        return x + 1, repr([p])

    c = framelift.compile(f, backend="eager")
    x, one, other = torch.ones(2), Plain(), Plain()
    assert c(x, one)[1] == repr([one]) and c(x, other)[1] == repr([other]) and c(x, one)[1] == repr([one])
    Plain.__qualname__ = "Renamed"
    try:
        assert c(x, one)[1] == repr([one])
    finally:
        Plain.__qualname__ = "Plain"


def test_addresses_of_objects_made_inside_are_not_known() -> None:
    def f(x):
        return x + 1, repr([Plain()])

    def g(x):
        def inner():
            return 1

        return x + 1, f"{inner}"

    for program in (f, g):
        before = counts().total_breaks
        text = compiled(program)(torch.ones(2))[1]
        assert " at 0x" in text and counts().total_breaks > before


def _message(x, made):
    if x.dim() != 1:
        raise ValueError(f"no vector for {made!r}, " + str([made]))
    return x + 1


def _handed_on(x):
    made = Plain()
    texts = [f"{made}", repr(made), "%s" % made, "{}".format([made])]  # noqa: UP031, UP032
    error = ValueError(texts[0] + "!")
    return _message(x, made) + len(texts) + (error.args is not None)


def _caught(x):
    try:
        return _message(x[None], Plain())
    except ValueError:
        return x * 2


@pytest.mark.parametrize("program", [_handed_on, _caught])
def test_messages_that_show_an_address(program) -> None:
    check(program, torch.ones(2), graphs=None, breaks=None)


def test_an_error_that_leaves_shows_the_real_address() -> None:
    made = Plain()
    for call in (_message, framelift.compile(_message, backend="eager")):
        with pytest.raises(ValueError, match=repr(made)):
            call(torch.ones(2, 2), made)
    with pytest.raises(ValueError, match=" at 0x.* at 0x"):
        framelift.compile(lambda x: _message(x[None], Plain()), backend="eager")(torch.ones(2))


class Renamed:
    """What it is called changes."""


TEXTS = {
    "f-string": lambda x: (x + 1, f"{Renamed}"),
    "repr": lambda x: (x + 1, repr(Renamed)),
    "str": lambda x: (x + 1, str(Renamed)),
    "format": lambda x: (x + 1, "{}".format(Renamed)),  # noqa: UP032
    "percent": lambda x: (x + 1, "%s %r" % (Renamed, x.shape)),  # noqa: UP031
    "in a list": lambda x: (x + 1, f"{[Renamed, int]}"),
    "of an object": lambda x: (x + 1, f"{type(MADE)}"),
    "both": lambda x: (x + 1, f"{Renamed} {first}"),
}
MADE = Renamed()


@pytest.mark.parametrize("kind", TEXTS)
def test_names_that_texts_of_classes_show_are_facts(kind: str) -> None:
    f, x = TEXTS[kind], torch.ones(2)
    f_compiled = framelift.compile(f, backend="eager")
    names = Renamed.__module__, Renamed.__qualname__
    try:
        for now in (names, (names[0], "Other"), ("elsewhere", "Other")):
            Renamed.__module__, Renamed.__qualname__ = now
            assert f_compiled(x)[1] == f(x)[1]
            assert f_compiled(x)[1] == f(x)[1]
    finally:
        Renamed.__module__, Renamed.__qualname__ = names
    assert len(f_compiled.entries) == 3


class Meta(type):
    """A metaclass that leaves names to `type`, at first."""


@pytest.mark.usefixtures("plain_guards")
@pytest.mark.parametrize("read", ["attributes", "text"])
def test_names_of_a_class_whose_metaclass_changes(read: str) -> None:
    """The names are read as fields while the metaclass leaves them to `type`; nothing is left to ask at a call."""

    def attributes(x):
        return x + 1, (Made.__module__, Made.__qualname__, Made.__name__)

    def text(x):
        return x + 1, f"{Made}"

    class Made(metaclass=Meta):
        pass

    def rename():
        Made.__qualname__ = "Other"

    def move():
        Made.__module__ = "elsewhere"

    def answer():
        Meta.__getattribute__ = lambda cls, name: (
            "asked" if name == "__qualname__" else type.__getattribute__(cls, name)
        )

    def forget():
        del Meta.__getattribute__

    f, x = (attributes if read == "attributes" else text), torch.ones(2)
    c = framelift.compile(f, backend="eager")
    for change in (lambda: None, rename, move, answer, forget):
        change()
        for _ in range(3):
            assert c(x)[1] == f(x)[1], change.__name__
    assert not c.entries[0].program.unsettled()


class Shown(list):
    """Asked by C code whether it is equal, it makes texts of the other."""

    def __eq__(self, other):
        str(other)
        repr(other)
        format(other, "")
        return NotImplemented


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x + 1, Shown([object()]).count(Shown([object()]))),
        lambda x: (x + 1, [str(one) for one in [object()]] and repr(object()) and 1),
        lambda x: (x + 1, sorted([object(), object()], key=str) and 1),
    ],
)
def test_texts_that_are_thrown_away(program) -> None:
    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    for _ in range(3):
        assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))


def test_the_text_of_an_object_made_inside() -> None:
    def f(x, made):
        one, plain = made(), object()
        texts = [repr(one), format(one), plain.__format__(""), str(one)]
        known = [text.startswith("<") and " object at 0x" in text and text.endswith(">") for text in texts]
        return x + 1, known, f"{made.__qualname__} object at" in repr(one), repr(one).startswith("<elsewhere")

    check(f, torch.ones(2), Plain, graphs=None, breaks=None)
    c = compiled(f)
    name = Plain.__module__
    try:
        for module in (name, "elsewhere", name):
            Plain.__module__ = module
            assert c(torch.ones(2), Plain)[1:] == f(torch.ones(2), Plain)[1:]
    finally:
        Plain.__module__ = name


def test_texts_with_addresses_around_classes_and_partials() -> None:
    def f(x):
        class First:
            default = object()

        First.__doc__ = f"{First.__name__}({First.default!r})"

        class Second(First):
            pass

        def method(_self):
            return First.__name__

        made = type("Third", (Second,), {"method": method})
        shown = str(functools.partial(made.method, made()))
        return x + 1, made.__name__, functools.partial(made.method, made())(), bool(shown)

    check(f, torch.ones(2), graphs=None, breaks=None)


def test_the_documentation_of_a_class_is_read_when_it_is_made() -> None:
    def f(x):
        made = type("Made", (), {"__doc__": repr(object())})
        return x + 1, made.__doc__.startswith("<object object at")

    check(f, torch.ones(2), graphs=None, breaks=None)


MAKERS = {
    ValueError: (1,),
    set: ([1],),
    collections.deque: ([1],),
    collections.OrderedDict: ({"a": 1},),
    collections.defaultdict: (int,),
    types.SimpleNamespace: (),
    bytearray: (b"1",),
    datetime.date: (2020, 1, 1),
    functools.partial: (len,),
    object: (),
}
SHOWN = {
    "repr": repr,
    "%": lambda value: "%r" % (value,),
    "in a list": lambda value: str([value]),
    "cut": lambda value: "%.9r" % (value,),
    "cut in braces": lambda value: f"{value!r:.9}",
    "cut by format": lambda value: "{!r:.9}".format(value),  # noqa: UP032
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("way", SHOWN)
@pytest.mark.parametrize("inside", [False, True])
def test_a_class_gets_another_name(kind, way, inside):
    """C code that makes the text of an instance names the class."""
    given, show = MAKERS[kind], SHOWN[way]
    cls = type("First", (kind,), {})
    held = [cls(*given)]

    def f(x):
        return x + 1, show(cls(*given) if inside else held[0])[:9]

    c = framelift.compile(f, backend="eager")
    for number, name in enumerate(("First", "Other", "First")):
        cls.__name__ = cls.__qualname__ = name
        cls.__module__ = f"m{number % 2}"
        assert c(torch.ones(2))[1] == f(torch.ones(2))[1]


@pytest.mark.usefixtures("plain_guards")
@pytest.mark.parametrize("name", ["__name__", "__qualname__", "__module__"])
@pytest.mark.parametrize("cls", [pytest.UsageError, shutil.SpecialFileError])
def test_names_of_classes_of_libraries_are_facts_and_cost_no_visit(cls: type, name: str) -> None:
    def f(x):
        return x + 1, repr(cls("text")), str(cls)

    x, was = torch.ones(2), getattr(cls, name)
    c = framelift.compile(f, backend="eager")
    for _ in range(3):
        assert c(x)[1:] == f(x)[1:]
    assert not c.entries[0].program.unsettled()
    try:
        setattr(cls, name, "Other")
        assert c(x)[1:] == f(x)[1:]
    finally:
        setattr(cls, name, was)
    assert c(x)[1:] == f(x)[1:]
