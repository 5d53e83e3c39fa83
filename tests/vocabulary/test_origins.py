"""Origins: when two are the same place, and what they keep alive."""

from __future__ import annotations

import gc
import weakref

import pytest

from framelift.vocabulary.origins import STEPS, arg, const, step_text


class Key:
    """Equal to others of its class, but not of subclasses."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key)

    def __hash__(self) -> int:
        return 1


class OtherKey(Key):
    pass


def test_equal_steps_from_equal_roots_are_equal() -> None:
    one, other = (arg(0, "self").to("dict").to("item", "weight") for _ in range(2))
    assert one == other and hash(one) == hash(other) and not one != other and one is not other
    assert one.base is not None and one.base.to("item", "weight") is one
    assert (one.base.step, one.step, one.key, arg(0, "self").base) == ("dict", "item", "weight", None)
    assert str(one) == repr(one)[8:-1] == "self.__dict__['weight']"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (arg(0, "x"), arg(1, "x")),
        (arg(0, "x").to("item", 1), arg(0, "x").to("item", True)),
        (arg(0, "x").to("item", Key()), arg(0, "x").to("item", OtherKey())),
        (arg(0, "x").to("item", "a"), arg(0, "x").to("lookup", "a")),
        (arg(0, "x").to("dict"), arg(0, "x").to("dict").to("dict")),
        (const([1]), const([1])),
        (arg(0, "x"), "x"),
    ],
)
def test_other_places_are_not_equal(left: object, right: object) -> None:
    assert left != right and not left == right


def test_keys_of_one_class_are_compared_as_they_say() -> None:
    assert arg(0, "x").to("item", Key()) == arg(0, "x").to("item", Key())
    root = arg(0, "x")
    assert root.to("item", Key()) is root.to("item", Key()) and root.to("item", 1) is not root.to("item", True)


def test_a_root_may_be_unhashable_and_a_key_may_not() -> None:
    table: dict[str, int] = {}
    assert const(table) == const(table) and len({const(table), const(table)}) == 1
    with pytest.raises(TypeError, match="unhashable"):
        arg(0, "x").to("item", [])


def test_origins_in_a_cycle_are_collected() -> None:
    class Thing:
        origin: object

    thing = Thing()
    thing.origin = const(thing).to("dict").to("item", "origin")
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


def test_a_long_path_is_compared_and_let_go() -> None:
    one, other = arg(0, "x"), arg(0, "x")
    for _ in range(20_000):
        one, other = one.to("item", 0), other.to("item", 0)
    assert one == other and one != other.base


def test_a_text_is_the_same_by_whatever_way_it_was_made() -> None:
    class Text(str):
        pass

    keys = ("a", 0, -3, True, None, "it's", Text("b"), Key(), ("t", 1))
    for step in STEPS:
        for key in keys:
            try:
                wanted = step_text(step, "x.__dict__['y']", key)
            except AttributeError:  # `ask` shows the name of a function
                continue
            begun = arg(0, "x").to("dict").to("item", "y")
            assert str(begun.to(step, key)) == wanted  # nothing before it has a text yet
            assert str(arg(0, "x")) == "x" and str(begun) == "x.__dict__['y']"
            made = begun.to(step, key).to("item", 1)
            assert str(made) == f"{wanted}[1]" == str(made)


def test_the_text_of_a_long_path() -> None:
    path = root = arg(0, "x")
    assert str(root) == "x"
    for _ in range(20_000):
        path = path.to("item", 0)
    assert str(path) == "x" + "[0]" * 20_000
