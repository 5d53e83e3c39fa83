"""Programs for tests/capture/test_breaks.py: each kind of break inside each kind of block.

`PROGRAMS` maps (kind, block) to source.
"""

from __future__ import annotations

import textwrap

__all__ = ["BLOCKS", "KINDS", "PROGRAMS"]

#: statements that break; they may read and write `x` (a tensor), `log` (a list of the caller's) and `box` (an object of
#: the caller's)
KINDS = {
    "print": "print('x', tuple(x.shape), file=out)",
    "call": "log.append(os.getpgid(0) > 0)",
    "item": "log.append(x.sum().item())",
    "tolist": "log.append(x.tolist())",
    "disabled": "x = disabled(x)",
    "disabled_raises": "log.append(len(str(disabled_raises(x, len(log)))))",
    "opaque_attribute": "log.append((box.lock.locked(), out.closed))",
    "opaque_operator": "log.append(out == box.lock)",
    "opaque_item": "log.append(box.array[1])",
    "opaque_with": "with box.lock: x = x + 1",
    "iteration": "log.append([x + i for i in box.numbers()][0])",
    "if": "if x.sum() > 0: x = x - 1\nelse: x = x + 3",
    "while": "while x.sum() < 30: x = x + 5",
    "and": "y = x.sum() > 0 and x.mean() < 100\nlog.append(y)",
    "not": "log.append(not x.sum() > 0)",
    "ternary": "x = x + 1 if x.sum() > 0 else x - 1",
    "assert": "assert x.sum() < 1e9, 'large'",
    "condition": "log.append([i for i in range(3) if (x + i).sum() > 5])",
    "call_in_arguments": "x = torch.add(x, torch.full((), float(os.getpgid(0) > 0)), alpha=2)",
    "callee": "x = callee(x, log)",
    "nested_callee": "x = outer_callee(x, log)",
}

#: blocks: BREAK is replaced by the statement
BLOCKS = {
    "plain": """
        x = x * 2
        BREAK
        return x + 1""",
    "for": """
        for i in range(3):
            x = x + i
            BREAK
            x = x * 1.5
        return x""",
    "for_list": """
        total = 0
        for name, k in zip("abc", [1, 2, 3]):
            x = x + k
            BREAK
            total = total + k
        else:
            x = x - 1
        return x, total, name""",
    "for_dict": """
        found = {}
        for k, v in enumerate({"a": 1.0, "b": 2.0}.items()):
            BREAK
            found[v[0]] = x * v[1]
        return found, k""",
    "while_else": """
        n = 0
        while n < 3:
            n += 1
            BREAK
            if n == 2:
                continue
            x = x + n
        else:
            x = x * 2
        return x""",
    "loop_break": """
        for i in range(9):
            BREAK
            if i == 2:
                break
            x = x + 1
        return x, i""",
    "try": """
        try:
            x = x + 1
            BREAK
            x = x * 2
        except ValueError as e:
            x = x - 1
            log.append(str(e))
        return x""",
    "try_raises": """
        try:
            x = x + 1
            BREAK
            raise KeyError(tuple(x.shape))
        except KeyError as e:
            log.append(repr(e))
            x = x * 3
        return x""",
    "except": """
        try:
            x = x + 1
            raise ValueError("inside")
        except ValueError as e:
            BREAK
            log.append(str(e))
            x = x * 2
        return x""",
    "except_external": """
        try:
            fails("outside")
        except ValueError as e:
            x = x + 1
            BREAK
            log.append((str(e), e.__traceback__ is not None))
            x = x * 2
        return x""",
    "except_reraised": """
        try:
            try:
                fails("outside")
            except ValueError:
                x = x + 1
                BREAK
                raise
        except ValueError as e:
            log.append(str(e))
        return x * 2""",
    "finally": """
        try:
            x = x + 1
        finally:
            BREAK
            x = x * 2
        return x""",
    "finally_raises": """
        try:
            try:
                x = x + 1
                raise KeyError("k")
            finally:
                BREAK
                x = x * 2
                log.append("finally")
        except KeyError as e:
            log.append(e.args)
        return x""",
    "finally_return": """
        for i in range(2):
            try:
                x = x + 1
                BREAK
                if i == 1:
                    return x
            finally:
                log.append(i)
        return x""",
    "with_torch": """
        with torch.no_grad():
            x = x + 1
            BREAK
            x = x * 2
            log.append(torch.is_grad_enabled())
        return x * 3, torch.is_grad_enabled()""",
    "with_user": """
        with box.context(log) as value:
            x = x + value
            BREAK
            x = x * 2
        return x""",
    "with_nested": """
        with box.context(log) as value, torch.no_grad():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                x = x + value
                BREAK
                y = x @ x.T
            x = x * 2
        return x, y.dtype, torch.is_autocast_enabled("cpu")""",
    "with_suppress": """
        import contextlib
        with contextlib.suppress(ValueError):
            x = x + 1
            BREAK
            x = x * 2
        return x""",
    "comprehension": """
        def step(k):
            nonlocal x
            x = x + k
            BREAK
            return x * 2
        return [step(k) for k in range(2)]""",
    "closure": """
        scale = 2
        def inner(y):
            nonlocal scale
            scale += 1
            return y * scale
        x = inner(x)
        BREAK
        x = inner(x)
        return x, scale""",
    "cell_written": """
        k = 1
        get = lambda: k
        x = x + get()
        BREAK
        k = 5
        return x * get()""",
    "method": """
        return box.method(x, log, out)""",
    "generator": """
        def gen(n):
            y = x
            for i in range(n):
                yield y + i
        return sum(gen(3)) + finish(x, log, box, out)""",
    "live_generator": """
        def gen():
            yield x + 1
            yield x + 2
        g = gen()
        first = next(g)
        BREAK
        return first * next(g)""",
    "containers": """
        a = [x, {"k": x}]
        b = a
        t = (a, b)
        BREAK
        b.append(x + 1)
        return a is b, t[0] is a, len(a), a[1]["k"] is x, t""",
    "effects": """
        box.count = box.count + 1
        log.append(("before", box.count))
        y = x + box.count
        BREAK
        box.count = box.count + 1
        log.append(("after", box.count))
        return y * box.count""",
    "expression": """
        x = x + 1
        def do(v):
            nonlocal x
            x = v
            BREAK
            return x
        return torch.stack([x, do(x * 2), x - 1]).sum(dim=0, keepdim=len(log) < 0)""",
    "match": """
        match (len(log), tuple(x.shape)):
            case (0, (a, b)) if a > 0:
                x = x + a
                BREAK
                x = x * b
            case _:
                x = x - 1
        return x""",
    "unbound": """
        if len(log) == 99:
            later = 1
        BREAK
        try:
            return x + later
        except UnboundLocalError as e:
            return x, str(e)""",
    "deleted": """
        y = x + 1
        del x
        x = y
        del y
        BREAK
        return x""",
}

_HEAD = """
class Box:
    def __init__(self):
        self.lock = threading.Lock()
        self.array = array.array("d", [1.0, 2.0])
        self.count = 1

    def numbers(self):
        return iter(self.array)

    @contextlib.contextmanager
    def context(self, log):
        log.append("enter")
        try:
            yield 2
        finally:
            log.append("leave")

    def method(self, x, log, out):
        box = self
        x = x + self.count
        BREAK
        self.count += 1
        return x * self.count

@torch.compiler.disable
def disabled(x):
    return x + 1

@torch.compiler.disable
def disabled_raises(x, n):
    raise ValueError(f"disabled {n}")

@torch.compiler.disable
def fails(text):
    raise ValueError(text)

def callee(x, log):
    x = x + 1
    log.append(os.getpgid(0) > 0)
    return x * 2

def outer_callee(x, log):
    return callee(callee(x, log) - 1, log)

def finish(x, log, box, out):
    BREAK
    return x

def program(x, log, box, out):
"""


def _filled(text: str, statement: str) -> str:
    lines = []
    for line in text.splitlines():
        if line.strip() == "BREAK":
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + part for part in statement.splitlines()]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


PROGRAMS = {
    (kind, block): _filled(_HEAD, statement) + textwrap.indent(_filled(textwrap.dedent(body), statement), "    ")
    for kind, statement in KINDS.items()
    for block, body in BLOCKS.items()
}
