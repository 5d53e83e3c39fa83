"""Coroutines and asynchronous generators that captured code makes and drives itself are watched as generators are."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import torch

import framelift
from support import check

X = torch.ones(3)


def drive(coroutine: Any) -> Any:
    """What an event loop does with a coroutine that never waits."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return end.value


async def _scaled(x: Any, n: int) -> Any:
    await _nothing()
    return x * n


async def _nothing() -> None:
    return None


async def _count(n: int) -> Any:
    try:
        for i in range(n):
            yield i
    finally:
        LOG.append("left")


LOG: list[Any] = []


class Manager:
    async def __aenter__(self) -> int:
        return 5

    async def __aexit__(self, *error: Any) -> bool:
        return True


class Awaited:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Any:
        got = yield "asked"
        return self.value if got is None else got


class Steps:
    def __init__(self, n: int) -> None:
        self.n = n

    def __aiter__(self) -> Steps:
        return self

    async def __anext__(self) -> int:
        if not self.n:
            raise StopAsyncIteration
        self.n -= 1
        return self.n


def test_await_async_for_async_with() -> None:
    async def main(x: Any, steps: Any) -> Any:
        total = 0
        async for i in _count(3):
            total += i
        async with Manager() as five:
            total += five
            raise ValueError
        async for i in steps:
            total += i
        odd = [i async for i in _count(4) if i % 2]
        return await _scaled(x, total), odd, await Awaited(7)

    def f(x: Any, steps: Any) -> Any:
        return drive(main(x, steps))

    check(f, X, Steps(3), state=[(globals(), "LOG")], calls=1)


def test_an_object_from_outside_is_awaited() -> None:
    def f(x: Any, awaited: Any) -> Any:
        async def main() -> Any:
            return x + await awaited

        coroutine = main()
        asked = coroutine.send(None)
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value, asked

    def other(i: int, world: Any) -> None:
        world.args[1].value = 9.0

    check(f, X, Awaited(7.0), mutate=other, calls=2, graphs=None)


def test_exceptions_thrown_in_and_out() -> None:
    def f(x: Any) -> Any:
        seen = []

        async def inner() -> None:
            try:
                await Awaited(1)
            except KeyError as error:
                seen.append(repr(error))
                raise ValueError("out") from error
            finally:
                seen.append("finally")

        coroutine = inner()
        coroutine.send(None)
        try:
            coroutine.throw(KeyError("in"))
        except ValueError as error:
            seen.append(repr(error.__cause__))
        second = inner()
        second.send(None)
        second.close()
        return x + len(seen), seen

    check(f, X)


def test_a_coroutine_that_nobody_awaits_says_so_once() -> None:
    def f(x: Any) -> Any:
        made = _scaled(x, 2)
        made.close()
        return x + 1

    def forgetful(x: Any) -> Any:
        _scaled(x, 2)
        return x + 1

    check(f, X)
    compiled = framelift.compile(forgetful, backend="eager")
    for _ in range(2):
        with warnings.catch_warnings(record=True) as reported:
            warnings.simplefilter("always")
            assert torch.equal(compiled(X), X + 1)
            gc.collect()
        assert [str(w.message) for w in reported if "never awaited" in str(w.message)] == [
            "coroutine '_scaled' was never awaited"
        ]


def test_a_coroutine_as_result() -> None:
    compiled = framelift.compile(lambda x: _scaled(x + 1, 2), backend="eager")
    assert torch.equal(drive(compiled(X)), (X + 1) * 2)


def test_a_compiled_coroutine_function_in_a_loop() -> None:
    @framelift.compile(backend="eager")
    async def step(x: Any) -> Any:
        await asyncio.sleep(0)
        return [i async for i in _count(2)], x * 2

    got, doubled = asyncio.run(step(X))
    assert got == [0, 1] and torch.equal(doubled, X * 2)
