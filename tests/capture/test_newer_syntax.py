"""Syntax and instructions that only newer versions of CPython have: captured programs do what plain Python does.

The programs are texts, so that older versions can read this file.
"""

from __future__ import annotations

import io
import sys
import textwrap
import traceback
from typing import Any

import pytest
import torch

import framelift

#: name -> from which version on, the body of `program(x, log)`
PROGRAMS: dict[str, tuple[tuple[int, int], str]] = {
    "two variables at once, with a break between": (
        (3, 11),
        """
        a, b = x + 1, x + 2
        log.append(len(log)); print(end="")
        c, d = b, a
        a, b = c * 2, d * 3
        print(end="")
        return a - b, c, d
        """,
    ),
    "comprehensions that hide variables, with breaks inside": (
        (3, 11),
        """
        i = 7
        found = [(print(end=""), [x + i + k for k in range(2)])[1] for i in range(2)]
        mapped = {k: (print(end=""), x * k)[1] for k in range(2)}
        return i, found, mapped, [k for k in range(3) if print(end="") is None]
        """,
    ),
    "star calls that break, of callables that look at their keywords": (
        (3, 11),
        """
        def inner(*args, **named):
            print(end="")
            return args, named
        made = torch.Tensor.__new__(torch.Tensor, *[x + 1])
        log.append(inner(*[len(log)]))
        return made * 2, inner(*[1], k=2), sorted(*[[2, 1]])
        """,
    ),
    "a variable that is unbound again after a comprehension": (
        (3, 11),
        """
        values = [(print(end=""), x + i)[1] for i in range(2)]
        try:
            return values, i
        except NameError as error:
            return values, type(error).__name__, str(error)
        """,
    ),
    "a variable of a closure that a comprehension hides": (
        (3, 11),
        """
        i = x
        def inner():
            return i + 1
        values = [(print(end=""), i)[1] for i in range(2)]
        print(end="")
        return values, inner()
        """,
    ),
    "comprehensions as arguments of calls of functions and of methods": (
        (3, 11),
        """
        log.append([(print(end=""), x * k)[1] for k in range(2)])
        log.extend(list([print(end=""), k][1] for k in range(2)))
        return torch.stack([(print(end=""), x + k)[1] for k in range(2)]).sum(0)
        """,
    ),
    "star calls with breaks in their arguments": (
        (3, 11),
        """
        def callee(*args, **kwargs):
            return sum(args) + sum(kwargs.values())
        pair, named = (x, x + 1), {"k": x * 2}
        first = callee(*pair, *[print(end="") or 1])
        second = callee(*pair, **named, **{"m": (print(end=""), 3)[1]})
        return first, second, callee(**named), callee(*pair), max(*[1, 2])
        """,
    ),
    "with blocks of functions, of C code, and nested ones": (
        (3, 11),
        """
        class Manager:
            def __init__(self, name):
                self.name = name
            def __enter__(self):
                log.append(("enter", self.name))
                return self
            def __exit__(self, kind, error, trace):
                log.append(("exit", self.name, kind and kind.__name__))
                return kind is ValueError
        with Manager("a") as a, torch.no_grad():
            print(end="")
            y = x + 1
            with Manager("b"):
                y = y * 2
                print(end="")
                raise ValueError("swallowed")
        with Manager("c"):
            print(end="")
            y = y + 3
        return y, a.name, torch.is_grad_enabled()
        """,
    ),
    "an exception that leaves finally blocks which break": (
        (3, 11),
        """
        y = x
        try:
            try:
                y = y + 1
                raise KeyError("k")
            finally:
                print(end="")
                y = y * 2
        except KeyError as error:
            print(end="")
            return y, str(error), type(error.__context__).__name__
        """,
    ),
    "an exception that is raised again out of blocks": (
        (3, 11),
        """
        for number in range(2):
            try:
                print(end="")
                x = x + number
                if number:
                    raise IndexError(str(number))
            except KeyError:
                x = x * 100
            finally:
                print(end="")
                log.append(number)
        return x
        """,
    ),
    "exceptions thrown into generators and coroutines": (
        (3, 11),
        """
        def gen():
            try:
                yield 1
            except KeyError as error:
                log.append(repr(error))
                yield 2
        def outer():
            try:
                yield from gen()
            except TypeError:
                yield 3
        found = []
        pairs = (gen(), KeyError("in")), (gen(), KeyError), (outer(), KeyError("in")), (outer(), TypeError)
        for made, thrown in pairs:
            made.send(None)
            found.append(made.throw(thrown))
            made.close()
        return x + len(found), found
        """,
    ),
    "annotations that nobody evaluates": (
        (3, 14),
        """
        def inner(value: undefined_name, *rest: also_undefined) -> nowhere:
            local: not_there = value + 1
            return local
        class Made:
            field: undefined_name = 3
            if len(log) >= 0:
                other: undefined_too
        print(end="")
        try:
            inner.__annotations__
        except NameError as error:
            found = str(error)
        return inner(x), Made.field, found
        """,
    ),
    "exceptions without parentheses": (
        (3, 14),
        """
        try:
            print(end="")
            raise KeyError("k")
        except ValueError, KeyError:
            print(end="")
            return x + 1
        """,
    ),
    "template strings": (
        (3, 14),
        """
        y = x + 1
        print(end="")
        name = "w"
        made = t"a{name!r:>5}b{len(log)}c"
        y = y + len(made.strings)
        parts = [(each.value, each.expression, each.conversion, each.format_spec) for each in made.interpolations]
        return y, made.strings, parts
        """,
    ),
    "template strings that are nested, added, walked and handed on": (
        (3, 14),
        """
        width, name = len(log) + 3, "w"
        def shown(template):
            return "".join(each if isinstance(each, str) else f"{each.value!r:{each.format_spec}}" for each in template)
        y = x + 1
        print(end="")
        made = t"{name:>{width}}|" + t"{t'in {width}'.values}{name=}{{}}"
        y = y * len(made.values)
        nested = t"{shown(t'{width}'):<4}{y.shape[0] + 1}"
        return y, shown(made), nested.values, [type(each).__name__ for each in made], shown(nested)
        """,
    ),
    "a template string over what a break gives": (
        (3, 14),
        """
        y = x + 1
        made = t"{(print(end=''), len(log))[1]:{log}}{y.sum()}{y if len(log) else None}"
        return y * made.values[0], made.values[1:], made.interpolations[0].format_spec, made.strings
        """,
    ),
    "annotations that are evaluated late": (
        (3, 14),
        """
        import annotationlib
        later, y = 1, x + 1
        print(end="")
        def inner(value: (log, later), *rest: "text") -> torch.Tensor:
            return value
        class Made:
            field: later = 3
            other: list[int]
        later = 2
        found = inner.__annotations__, Made.__annotations__, inner(y + later)
        text = annotationlib.get_annotations(inner, format=annotationlib.Format.STRING)
        return found, sorted(text), Made.__annotations__ is Made.__annotations__
        """,
    ),
    "groups of exceptions without parentheses": (
        (3, 14),
        """
        y = x + 1
        try:
            print(end="")
            raise ExceptionGroup("g", [ValueError("v"), KeyError("k"), TypeError("t")])
        except* ValueError, KeyError:
            y = y + 2
            print(end="")
        except* TypeError:
            y = y * 2
        return y
        """,
    ),
    "references that a stack borrows from variables, at breaks": (
        (3, 11),
        """
        import weakref
        class Kept:
            pass
        a, b = x + 1, x + 2
        listed = [a, b, (print(end=""), a * b)[1], a]
        named = dict(first=a, second=(print(end=""), b)[1], third=a)
        y = a.mul(b if print(end="") else 2).add(b) + a * (print(end="") or 1)
        kept = Kept()
        seen = weakref.ref(kept)
        before = [kept, print(end=""), seen() is kept][1:]
        del kept
        gone = seen() is None
        c = a
        c, a = (a, print(end=""), c)[0], b
        return listed, named, y, before, gone, c, a, named["first"] is named["third"] is listed[0]
        """,
    ),
    "functions that came with 3.14": (
        (3, 14),
        """
        import contextvars, heapq
        heap = [1, 5, 3]
        heapq.heapify_max(heap)
        heapq.heappush_max(heap, 4)
        found = heapq.heappop_max(heap), heapq.heapreplace_max(heap, 0), heapq.heappushpop_max(heap, 9), heap
        variable = contextvars.ContextVar("variable", default=1)
        with variable.set(5) as token:
            y = x + variable.get()
        return y * variable.get(), found, token.var is variable
        """,
    ),
    "borrowed references in loops, and in generators that wait": (
        (3, 11),
        """
        def walk(value, items):
            for each in items:
                value = value + each
                sent = yield value, each, print(end="")
                value = value if sent is None else sent
        y, found = x, []
        for k in range(3):
            y = y + [k, (print(end=""), k)[1], k][k]
            if k == 1:
                continue
            found.append(y)
        made = walk(y, [1, 2, 3])
        found += [next(made)[0], made.send(x)[0], next(made, None)[1]]
        return y, found
        """,
    ),
    "asynchronous with blocks and loops": (
        (3, 11),
        """
        class Manager:
            async def __aenter__(self):
                log.append("enter")
                return 2
            async def __aexit__(self, kind, error, trace):
                log.append(kind and kind.__name__)
                return kind is ValueError
        async def numbers():
            for k in range(2):
                yield k
        async def main(value):
            async with Manager() as k:
                value = value * k
                async for number in numbers():
                    value = value + number
                raise ValueError("swallowed")
            return value
        print(end="")
        waiting = main(x + 1)
        try:
            waiting.send(None)
        except StopIteration as end:
            return end.value
        """,
    ),
    "functions that are called in line": (
        (3, 11),
        """
        y = x + 1
        if all(k < 3 for k in range(3)) and not any(k > 3 for k in range(3)):
            y = y * 2
        print(end="")
        return y, tuple(k + 1 for k in range(3)), all([]), any([])
        """,
    ),
    "an assertion that fails": (
        (3, 11),
        """
        y = x + 1
        print(end="")
        assert len(log) == 99, "told"
        return y
        """,
    ),
}


def _run(function: Any) -> list[Any]:
    rows: list[Any] = []
    log: list[Any] = []
    for call in range(3):
        x = torch.arange(3.0) + call
        try:
            rows.append(_shown(function(x, log)))
        except Exception as error:
            lines = [row.lineno for row in traceback.extract_tb(error.__traceback__) if row.filename == "<newer>"]
            rows.append((type(error).__name__, str(error), lines))
        log.append("call")
    return [rows, _shown(log)]


def _shown(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return type(value)(map(_shown, value))
    if isinstance(value, dict):
        return {key: _shown(each) for key, each in value.items()}
    return value


def _made(name: str) -> Any:
    source = "def program(x, log):\n" + textwrap.indent(textwrap.dedent(PROGRAMS[name][1]).strip("\n"), "    ")
    namespace: dict[str, Any] = {"torch": torch, "io": io}
    exec(compile(source, "<newer>", "exec", dont_inherit=True), namespace)
    return namespace["program"]


@pytest.mark.parametrize("name", [name for name, (version, _) in PROGRAMS.items() if version <= sys.version_info[:2]])
def test_as_in_plain_python(name: str) -> None:
    framelift.reset()
    assert _run(framelift.compile(_made(name), backend="eager")) == _run(_made(name))
    assert framelift.stats()["graphs"]
