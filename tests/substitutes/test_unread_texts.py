"""Texts of tensors and symbolic numbers: captured where nobody reads them, made in eager mode where somebody does."""

from __future__ import annotations

import collections
import functools
import itertools
import json
import logging
import operator
import pickle
import re
import warnings
from typing import Any

import pytest
import torch

import framelift
from support import counts


class Box:
    def __init__(self, text: str) -> None:
        self.text = text


class Failure(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def check(condition: bool, message: str) -> None:
    if not isinstance(message, str) or type(message) is not str or not message:
        raise TypeError
    if not condition:
        raise ValueError(message)


def message(x: torch.Tensor) -> Any:
    check(x.dim() == 2, f"no matrix: {x} of {x.shape[0]} rows")
    return x + 1


def made_of_others(x: torch.Tensor) -> Any:
    texts = ["{} {}".format(x, 3), "%s" % x, str(x) + " a", "b" + repr(x), f"{x!r:>10}", format(x.sum(), "")]
    texts.append(", ".join(texts) + texts[0])
    check(True, texts[-1])
    return x * len(texts)


def kept_inside(x: torch.Tensor) -> Any:
    box, error, table = Box(f"{x}"), Failure(f"{x}"), {"text": f"{x}"}
    try:
        raise Failure(table["text"])
    except Failure as caught:
        return x + (box.text is not None) + (error is not caught)


def logged(x: torch.Tensor) -> Any:
    logging.getLogger("nobody listens").debug(f"{x}")
    return x + 1


def asserted(x: torch.Tensor) -> Any:
    torch._assert(x.sum() >= 0, f"negative: {x}")
    assert x.sum() >= -1, f"very negative: {x}"
    return x + 1


def raised(x: torch.Tensor) -> Any:
    if x.sum() < 0:
        raise Failure(f"negative: {x} of {x.shape[0]} rows")
    return x + 1


def checked(x: torch.Tensor) -> Any:
    text = f"negative: {x}"
    torch._check_tensor_all(x >= 0, lambda: text)
    return x + 1


UNREAD = [message, made_of_others, kept_inside, logged, asserted, raised, checked]


def outcome(function: Any, x: torch.Tensor) -> Any:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = function(x)
        except Exception as error:  # noqa: BLE001
            found = type(error), str(error)
    return plain(found), [
        str(one.message) for one in heard if one.category is UserWarning and "framelift" not in str(one.message)
    ]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, Box):
        return type(value), value.text
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def inputs() -> list[torch.Tensor]:
    return [torch.full((rows, 2), value) for rows in (2, 3, 4) for value in (1.0, -1.0, 3.0)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", UNREAD)
def test_texts_that_nobody_reads_are_captured(program: Any, backend: str) -> None:
    compiled = framelift.compile(program, backend=backend, fullgraph=True, dynamic=True)
    for x in inputs():
        assert outcome(compiled, x) == outcome(program, x)
    # A logger remembers its answer; a size in a text is a constant of its capture.
    assert counts().captures <= 3 + (program is logged) and not counts().breaks


def length(x: torch.Tensor) -> Any:
    return x + len(f"{x}")


def compared(x: torch.Tensor) -> Any:
    return x + (f"{x}" == "a") + ("a" == f"{x}") + ("t" in f"{x}") + (f"{x}" in "abc") + (f"{x}" in ["a", "b"])


def given_back(x: torch.Tensor) -> Any:
    return x + 1, [f"{x}", Box(f"{x}")]


def across_a_break(x: torch.Tensor) -> Any:
    text = f"{x}"
    y = x + 1
    framelift.graph_break()
    return y, text


def as_key(x: torch.Tensor) -> Any:
    return x + len({f"{x}": 1, f"{x + 1}": 2})


def by_methods(x: torch.Tensor) -> Any:
    text = f"{x}"
    return x, text.upper(), text[0], text * 2, list(text), text.encode(), str.title(text), text.split("t")


def by_c_code(x: torch.Tensor) -> Any:
    return x + sum(map(str.isalpha, [f"{x}"])) + "abc".count(f"{x}"), max([f"{x}", "a"]), sorted([f"{x}", "z"])


def of_a_failure(x: torch.Tensor) -> Any:
    try:
        raise Failure(f"{x}")
    except Failure as error:
        return x + 1, error.args[0], str(error)


def matched(x: torch.Tensor) -> Any:
    match f"{x}":
        case "a":
            return x
        case str():
            return x + 1


def warned(x: torch.Tensor) -> Any:
    warnings.warn(f"{x}", stacklevel=1)
    return x + 1


KEPT: list[Any] = []


def stored(x: torch.Tensor) -> Any:
    KEPT.append(f"{x}")
    return x + 1, KEPT.copy()


def joined(x: torch.Tensor) -> Any:
    return x + 1, ", ".join(map(str, [x])), ", ".join(f"{one}" for one in [x]), list(map(str.upper, map(str, [x])))


def in_ascii(x: torch.Tensor) -> Any:
    return x + 1, f"{x!a}", ascii(x)


def with_a_wrong_format(x: torch.Tensor) -> Any:
    try:
        text = f"{x:.2f}"
    except TypeError as error:
        text = str(error)
    return x + 1, text


def from_an_iterator(x: torch.Tensor) -> Any:
    text = f"{x}"
    return x + 1, list(map(str.isprintable, iter([text]))), any(map(str.isspace, (one for one in [text])))


READ = [
    joined,
    in_ascii,
    with_a_wrong_format,
    from_an_iterator,
    length,
    compared,
    given_back,
    across_a_break,
    as_key,
    by_methods,
    by_c_code,
    of_a_failure,
    matched,
    warned,
    stored,
]


@pytest.mark.parametrize("program", READ)
def test_texts_that_are_read_are_those_of_eager(program: Any) -> None:
    compiled = framelift.compile(program, backend="eager")
    for x in inputs():
        KEPT.clear()
        want = outcome(program, x)
        KEPT.clear()
        assert outcome(compiled, x) == want
    assert set(counts().breaks) & {"a tensor's values were turned into text"}


def test_a_size_in_a_text_that_nobody_reads() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        check(x.shape[0] > 0, f"{x.shape[0]} rows")
        return x + 1

    compiled = framelift.compile(program, backend="eager", fullgraph=True, dynamic=True)
    for rows in range(2, 9):
        assert torch.equal(compiled(torch.ones(rows)), torch.full((rows,), 2.0))


def test_the_text_of_a_symbolic_number_that_is_given_back() -> None:
    """The next rehearsal has it for a constant."""
    compiled = framelift.compile(lambda x, n: (x * n, f"{n}", [repr(n)]), backend="eager", fullgraph=True)
    for n in (2, 3, 4):
        assert compiled(torch.ones(1), n)[1:] == (f"{n}", [f"{n}"])


def test_another_break_is_reported_as_itself() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        text = f"{x}"
        framelift.graph_break("asked for")
        return x if text is None else x + 1

    with pytest.raises(framelift.exc.Unsupported, match="asked for a graph break"):
        framelift.compile(program, backend="eager", fullgraph=True)(torch.ones(2))


class Derived(str):
    pass


#: programs that read a text by C code, each in another way
READ_BY_C_CODE = """
json.dumps({"a": f"{x}"})
f"{x}" in "a tensor"
"a" in (f"{x}", "b")
f"{x!a}" + ascii([x]) + "%a" % x
"%.1s" % x + "%.0s|" % x + "%40s" % x
"%s %a %s" % (x, x, ValueError("b"))
Derived(x).upper()
Derived(f"{x}").upper() + (Derived("%s") % x).upper() + Derived(",").join([f"{x}", "a"]).upper()
", ".join(iter([f"{x}", "b"])) + ", ".join(reversed([f"{x}", "b"]))
", ".join(collections.deque([f"{x}"])) + ", ".join({"a": f"{x}"}.values())
list(map(len, iter([f"{x}"])))
list(zip(f"{x}", "abc"))
sorted([2, 1], key=lambda n: f"{x}")
sorted([Box(f"{x}"), Box("a")], key=operator.attrgetter("text"))[0].text
functools.partial(str.upper, f"{x}")()
functools.reduce(operator.add, [f"{x}", "b"])
list(itertools.accumulate([f"{x}", "b"]))
collections.defaultdict(lambda: f"{x}")["a"].upper()
str.__contains__("a tensor", f"{x}")
str.__mod__("%s", f"{x}")
{"a": 1}.get(str(x), 2)
("a", f"{x}") < ("a", "b")
"{:.3}".format(f"{x}") + "{:>60}".format(f"{x}")
"{0.text}".format(Box(f"{x}"))
"abc".replace("b", f"{x}")
str(KeyError(f"{x}"))
repr({"a": f"{x}"})
getattr(Box(1), f"{x}", 5)
""".strip().splitlines()


@pytest.mark.parametrize("source", READ_BY_C_CODE)
def test_c_code_reads_what_eager_mode_makes(source: str) -> None:
    program = eval(f"lambda x: (x + 1, {source})", globals())
    compiled = framelift.compile(program, backend="eager")
    for x in (torch.ones(2), torch.zeros(2)):
        assert outcome(compiled, x) == outcome(program, x)


class Refused(ValueError):
    pass


def refuse(x: torch.Tensor, value: Any) -> None:
    raise Refused("not known: " + f"{value!r}" + ", so refused")


def caught(x: torch.Tensor) -> str:
    try:
        refuse(x, object())
    except Refused as error:
        return str(error)
    return ""


LETTERS = {
    "startswith": lambda x: (x + 1, caught(x).startswith("not known"), caught(x).startswith("no such")),
    "endswith": lambda x: (x + 1, caught(x).endswith(" refused"), caught(x).endswith("found")),
    "in": lambda x: (x + 1, "so refused" in caught(x), "not k" in caught(x)),
    "search": lambda x: (
        x + 1,
        bool(re.search("not known", caught(x))),
        re.compile("refused").search(caught(x)) is None,
    ),
    "replaced": lambda x: (x + 1, len([caught(x).replace("known", ""), caught(x).replace("n", "m")])),
    "of a tensor": lambda x: (x + 1, f"got {x}".startswith("got"), ("a" + str(x)).startswith("a")),
    "with blanks": lambda x: (x + 1, ("a %60s" % x).startswith("a")),
    "taken as a part": lambda x: (x + 1, ("a" + f"b{x}" + "c").startswith("ab"), ("a" + f"b{x}" + "c").endswith("c")),
}


OTHER_LETTERS = {
    "startswith": lambda x: (x + 1, f"got {x}".startswith("got tensor"), f"{x}".startswith("t")),
    "with blanks": lambda x: (x + 1, ("a %60s" % x).startswith("a  "), ("%-60s." % x).endswith(" .")),
    "in": lambda x: (x + 1, "1." in f"got {x}", "nothing" in f"got {x}"),
    "a text's text": lambda x: (x + 1, repr("a" + str(x)).startswith("a"), f"{'a' + str(x)!r}".startswith("'")),
    "formatted": lambda x: (x + 1, format("a" + str(x), ">60").startswith("a"), f"{'a' + str(x):>60}"[0] == " "),
    "replaced": lambda x: (x + 1, f"{x}".replace("tensor([1., 1.])", "") == "", bool(f"a{x}".replace("a", ""))),
    "search": lambda x: (x + 1, bool(re.search("got .*1", f"got {x}")), bool(re.search("GOT", f"got {x}", re.I))),
    "a match": lambda x: (x + 1, re.search("got", f"got {x}").string, re.search("got", f"got {x}").group()),
    "more than one": lambda x: (x + 1, f"got {x}".startswith(("a", "got")), f"got {x}".startswith("ot", 1)),
}


@pytest.mark.parametrize("program", [*LETTERS.values(), *OTHER_LETTERS.values()])
def test_letters_are_those_of_eager(program: Any) -> None:
    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    for x in (torch.ones(2), torch.zeros(2), torch.ones(2)):
        assert str(compiled(x)) == str(program(x))


def test_a_match_that_is_given_back() -> None:
    def program(x: torch.Tensor) -> Any:
        return x + 1, re.search("got", f"got {x}")

    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    for x in (torch.ones(2), torch.zeros(2)):
        match = compiled(x)[1]
        assert (match.string, match.span()) == (f"got {x}", (0, 3))
