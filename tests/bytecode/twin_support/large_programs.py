"""Programs too large to write by hand: names, constants and jumps beyond what one argument byte can say."""

from __future__ import annotations

__all__ = ["LARGE"]


def _many_names() -> str:
    lines = ["class Space: pass", "def run():", "    s = Space()"]
    lines += [f"    s.a{n} = {n * 1000}" for n in range(300)]
    lines += ["    total = 0", "    for i in range(2):", "        if i:"]
    lines += [f"            total += s.a{n}" for n in range(300)]
    lines += ["        else:"] + [f"            s.b{n} = abs(s.a{n})" for n in range(300)]
    lines += [f"            del s.b{n}" for n in range(299)] + ["    return total, s.b299"]
    return "\n".join(lines)


def _many_constants() -> str:
    body = ", ".join(f"'c{n}'.upper()" for n in range(400))
    cells = "\n".join(f"    v{n} = {n}" for n in range(300))
    total = " + ".join(f"v{n}" for n in range(300))
    return (
        f"def run():\n    x = [{body}]\n{cells}\n    def inner():\n        nonlocal v299\n        v299 = 1\n"
        f"        own = 5\n        def innermost(): return own, v0, v299\n        f = lambda: own\n"
        f"        return {total} + f() + own, innermost()\n    class C:\n        y = {total}\n"
        f"    return x, inner(), C.y, dict(*[[]], **{{'k': v270}})"
    )


def _many_cells() -> str:
    cells = "\n".join(f"        v{n} = {n}" for n in range(300))
    total = " + ".join(f"v{n}" for n in range(300))
    return (
        f"def run():\n    outer = 1\n    def middle():\n        nonlocal outer\n{cells}\n        def inner():\n"
        f"            return {total} + outer\n        outer += 1\n        v298 = v299 + outer\n"
        f"        return inner(), v298, v0, outer\n    return middle(), outer"
    )


def _long_jumps(count: int) -> str:
    inside = "\n".join(f"            n = n.real + {k % 7}" for k in range(count))
    return (
        f"def run():\n    n = 0\n    for i in range(2):\n        if n >= 0:\n            try:\n                pass\n"
        f"            finally:\n                n = n.real\n{inside}\n        else:\n            n = -1\n    return n"
    )


_GROWING = (
    "\n".join(
        ["log = []"]
        + [
            f"def f{n}(x):\n    for i in x:\n        if i:\n"
            + f"            log.append(x.{'copy' if n % 2 else 'append'})\n" * n
            + "        else:\n            continue\n    return len(log)"
            for n in range(1, 40)
        ]
    )
    + """
def run():
    functions = [v for k, v in list(globals().items()) if k[1:].isdigit()]
    return [f([0, 1] if n % 2 else [1, 1]) for n, f in enumerate(functions)]
"""
)

LARGE: dict[str, str] = {
    "many_names": _many_names(),
    "many_constants": _many_constants(),
    "many_cells": _many_cells(),
    "jumps_that_grow": _GROWING,
    "long_jumps": _long_jumps(3000),
    "very_long_jumps": _long_jumps(9000),
}
