"""Small programs that are run plainly and as twins.  Each defines `run()`, whose result or error is compared.

`PROGRAMS` maps a name to source; names ending in `_312` need CPython 3.12.  Errors are part of the point: their text,
their lines and their columns must be the original's.
"""

from __future__ import annotations

import sys

from .large_programs import LARGE

__all__ = ["PROGRAMS"]

_SOURCES: dict[str, str] = {}

_SOURCES["globals"] = """
counter = 0
def bump():
    global counter, gone
    counter += 1
    gone = counter
    del gone
    return counter
def run():
    bump()
    try:
        gone
    except NameError as error:
        return bump(), len([1, 2]), str(error)
"""
_SOURCES["delete_missing_global"] = """
def run():
    global never
    del never
"""
_SOURCES["attributes"] = """
class Box:
    __slots__ = ("value", "__dict__")
    kind = "box"
    def __init__(self, value):
        self.value = value
    @property
    def double(self):
        return self.value * 2
    @double.setter
    def double(self, new):
        self.value = new // 2
def run():
    box = Box(3)
    box.other = box.value
    box.double = 20
    box.other += 1
    del box.value
    return box.other, box.kind, hasattr(box, "value"), sorted(box.__dict__)
"""
_SOURCES["attributes_tested"] = """
class Box:
    none = ()
    full = [1]
    count = 3
def run():
    box, found = Box(), []
    if box.none:
        found.append("none")
    if not box.full:
        found.append("empty")
    found.append(1 if box.full else 2)
    found.append((not box.none, box.none or box.full, box.full and box.none, bool(box.none or box.full)))
    while box.count:
        box.count -= 1
        found += [i for i in range(3) if box.full if not box.none]
    assert box.full, box.none
    if box.missing:
        found.append("missing")
    return found
"""
_SOURCES["attribute_error_columns"] = """
def run():
    text = "a"
    return (text.upper().
            lower().missing + 1)
"""
_SOURCES["store_attribute_error"] = """
def run():
    value = [1]
    value[0].real = 5
"""
_SOURCES["delete_attribute_error"] = """
def run():
    value = 5
    del value.thing
"""
_SOURCES["methods"] = """
class Base:
    def hello(self, *args, **kwargs):
        return "base", args, kwargs
    @classmethod
    def make(cls):
        return cls
    @staticmethod
    def plain(x):
        return x
class Derived(Base):
    def hello(self, *args, **kwargs):
        return ("derived", super().hello(*args, **kwargs), super(Derived, self).hello(1), super().__class__ is super)
    def attribute(self):
        return super().plain, super(Derived, self).make
def run():
    d = Derived()
    bound = d.hello
    plain, make = d.attribute()
    return d.hello(1, k=2), bound(3), d.make() is Derived, d.plain(4), "x".join(["a", "b"]), plain is Base.plain, make()
"""
_SOURCES["own_super"] = """
class super:
    def __init__(self, *args):
        self.args = args
    name = "mine"
    def method(self):
        return "method", len(self.args)
class A:
    def plain(self):
        __class__
        return super().name, super().method()
    def full(self):
        return super(A, self).name, super(A, self).method()
def run():
    return A().plain(), A().full()
"""
_SOURCES["calls"] = """
def f(a, b=2, *args, c, d=4, **kwargs):
    return a, b, args, c, d, sorted(kwargs.items())
def run():
    pair, extra = (1, 2), {"z": 1}
    return (f(1, c=3), f(*pair, c=3), f(*pair, 5, c=3, **extra), f(a=1, **{"c": 2}),
            f(*iter(pair), **{"c": 0, "*": 9, "**": 8}),
            dict(**extra, y=2), max(*pair),
            (lambda: 7)(), (lambda: lambda x=1: x)()(), print and int(), str.upper("a"))
"""
for _name, _call in {
    "too_many": "f(1, 2)",
    "missing": "f()",
    "not_callable": "None(1)",
    "star_not_iterable": "f(*5)",
    "star_star_not_mapping": "f(**5)",
    "double_keyword": "f(**{'a': 1}, **{'a': 2})",
    "keyword_not_string": "f(**{1: 2})",
    "unknown_keyword": "f(1, zzz=2)",
    "builtin": "int('x', base=10)",
    "method": "[].pop(3)",
    "constructor": "int(a=1)",
    "undefined": "undefined_thing(f(1))",
    "undefined_argument": "f(undefined_thing)",
    "star_iterator_fails": "f(*(1/0 for _ in [1]))",
}.items():
    _SOURCES[f"call_error_{_name}"] = f"""
def f(a):
    return a
def run():
    return [0,
            {_call}, 3]
"""
_SOURCES["closures"] = """
def outer(n):
    total = 0
    def add(k):
        nonlocal total
        total += k + n
        return total
    def forget():
        nonlocal total
        del total
    def peek():
        return total
    return add, forget, peek, lambda n=n: n
def run():
    add, forget, peek, default = outer(10)
    seen = [add(1), add(2), peek(), default(), default(5)]
    forget()
    errors = []
    for f in (forget, peek):
        try:
            f()
        except NameError as error:
            errors.append(str(error))
    return seen, errors
"""
_SOURCES["unbound_free_variable"] = """
def run():
    def inner():
        return [1, late]
    inner()
    late = 1
"""
_SOURCES["class_bodies"] = """
shadowed = "global"
def make(value, flag):
    class Body:
        if flag:
            value = "own"
        seen = value, shadowed
        shadowed = "class"
        again = shadowed
        names = sorted(n for n in ("a", "b"))
        nested = [value for value in (1, 2)]
        def method(self):
            return value, __class__.__name__
        class Inner(dict, metaclass=type):
            depth = 2
    return Body.seen, Body.again, Body().method(), Body.names, Body.nested, Body.Inner.depth, Body.__qualname__
def run():
    return make(1, True), make(2, False)
"""
_SOURCES["class_body_undefined"] = """
def run():
    value = 1
    del value
    class Body:
        seen = (3, value)
"""
_SOURCES["class_body_missing_name"] = """
class Body:
    def __init__(self): pass
    try:
        x = not_there
    except NameError as error:
        text = str(error)
def run():
    return Body.text
"""
_SOURCES["metaclass_namespace"] = """
class Spy(dict):
    def __missing__(self, key):
        if key.startswith("__"):
            raise KeyError(key)
        return "made " + key
class Meta(type):
    @classmethod
    def __prepare__(cls, name, bases, **kw):
        return Spy()
    def __new__(cls, name, bases, ns, **kw):
        return super().__new__(cls, name, bases, dict(ns), )
    def __init__(cls, name, bases, ns, extra=None):
        cls.extra = extra
def run():
    class C(*(object,), metaclass=Meta, **{"extra": 5}):
        a = whatever
    return C.a, C.extra
"""
_SOURCES["decorators"] = """
log = []
def note(tag):
    def wrap(f):
        log.append((tag, f.__name__, type(f).__name__))
        return f
    return wrap
class Space:
    deco = staticmethod(note("attribute"))
def run():
    @note("outer")
    @Space.deco
    @note("inner")
    def function(x=1): return x
    @note("one")
    @note("two")
    class Plain: pass
    @note("k")
    class Keyed(Plain, *(), metaclass=(type if log else None)): pass
    @property
    @note("p")
    def prop(self): return self
    @lambda f: (log.append("lambda"), f)[1]
    async def coroutine(): return 1
    @(lambda: note("called"))()
    def tail(): return function
    @str
    class Text: pass
    coroutine().close()
    return log, tail()(3), isinstance(prop, property), type(Text), (lambda: (lambda: 5))()()
"""
_SOURCES["decorator_error"] = """
def bad(f):
    raise ValueError(f.__name__)
def run():
    @int
    @(lambda f: "12")
    def number(): pass
    @bad
    class C: pass
"""
_SOURCES["decorator_not_callable"] = """
def run():
    nothing = None
    @nothing
    def f(): pass
"""
_SOURCES["imports"] = """
import os.path as p
def run():
    import collections
    import importlib.machinery as machinery
    from collections import OrderedDict, deque as dq
    from os import path
    from xml import dom
    errors = []
    try:
        from collections import not_there
    except ImportError as error:
        errors.append((error.name, str(error).split(" (")[0]))
    try:
        import no.such.module
    except ImportError as error:
        errors.append(str(error))
    return collections.__name__, machinery.__name__, OrderedDict.__name__, dq.__name__, path is p, dom.__name__, errors
"""
_SOURCES["import_error_position"] = """
def run():
    x = 1; from os import not_there_at_all
"""
_SOURCES["with"] = """
log = []
class Manager:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow
    def __enter__(self):
        log.append("enter " + self.name)
        return self
    def __exit__(self, kind, value, tb):
        log.append((self.name, kind and kind.__name__, tb and tb.tb_lineno))
        return self.swallow
def early():
    with Manager("a") as a, Manager("b"):
        for i in range(3):
            with Manager("loop"):
                if i == 1:
                    return a.name
def run():
    early()
    with Manager("outer", True):
        with Manager("inner"):
            raise KeyError("x")
    with Manager("plain"): pass
    return log
"""
_SOURCES["with_not_a_manager"] = """
def run():
    with open(__file__) if False else 5 as thing:
        pass
"""
_SOURCES["async"] = """
log = []
class Manager:
    async def __aenter__(self):
        log.append("enter")
        return 5
    async def __aexit__(self, *exc):
        log.append(exc[0] and exc[0].__name__)
        return True
async def numbers(n):
    try:
        for i in range(n):
            yield i
    finally:
        log.append("closed")
async def work(n):
    async with Manager() as value:
        log.append(value)
        got = [i async for i in numbers(n) if i]
        log.append(got)
        log.append({k: v async for k, v in pairs()})
        async for i in numbers(2):
            log.append(i)
        else:
            log.append("else")
        raise ValueError
    return await other(got)
async def pairs():
    yield "a", 1
async def other(x):
    return sum(x)
def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value
def run():
    return drive(work(4)), log
"""
_SOURCES["async_with_not_a_manager"] = """
async def work():
    async with 5: pass
def run():
    work().send(None)
"""
_SOURCES["generators"] = """
def inner(n):
    try:
        got = yield n
        while got:
            got = yield got * 2
    except ValueError as error:
        yield "caught " + str(error)
    finally:
        yield "finally"
    return "done"
def outer():
    result = yield from inner(1)
    yield result
    total = sum(x * y for x in range(3) for y in (1, 2) if x)
    yield total
def run():
    g = outer()
    seen = [next(g), g.send(5), g.send(7), g.throw(ValueError("v")), next(g), next(g), next(g), list(g)]
    h = outer(); next(h); h.throw(KeyError("k"))
    return seen
"""
_SOURCES["generator_error"] = """
def broken():
    yield 1
    yield undefined_name
def run():
    return [x for x in broken()]
"""
_SOURCES["exceptions"] = """
log = []
def risky(kind):
    try:
        try:
            if kind == 0: return len(kind_of)
            if kind == 1: raise KeyError("one")
            if kind == 2: return {}["two"].thing
            if kind == 3: return None.three
            return "fine"
        except KeyError as error:
            log.append(("key", error.args))
            raise ValueError("from key") from error
        except AttributeError:
            return "attribute"
        else:
            log.append("else")
        finally:
            log.append(("finally", kind))
    except NameError as error:
        return str(error)
    except (TypeError, ValueError) as error:
        return repr(error), repr(error.__cause__)
def run():
    results = [risky(k) for k in range(5)]
    for i in range(3):
        try:
            if i == 1: continue
            if i == 2: break
        finally:
            log.append(i)
    return results, log
"""
_SOURCES["chained_error"] = """
class Thing:
    def __getattr__(self, name):
        raise AttributeError(name)
def run():
    try:
        Thing().one
    except AttributeError as error:
        try:
            Thing().two(
                error)
        finally:
            [].append(1).bad
"""
_SOURCES["exception_groups"] = """
def run():
    caught = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
    except* ValueError as group:
        caught.append(group.exceptions[0].args)
    except* KeyError as group:
        caught.append(len(group.exceptions))
        undefined_in_group
"""
_SOURCES["comprehensions"] = """
scale = 10
class Holder:
    items = [1, 2, 3]
def run(base=5):
    holder = Holder()
    make = [lambda k=k: k + base for k in holder.items]
    return ([x * scale + base for x in holder.items], {x: str(x) for x in range(3)}, {abs(x) for x in (-1, 1)},
            [[y.upper() for y in x] for x in ("ab", "c")], [f() for f in make], list(holder.items[i] for i in range(2)),
            [x for x in holder.items if (half := x / 2) > 0.5], half, [base for base in range(2)], base)
"""
_SOURCES["comprehension_error"] = """
def run():
    rows = [[1], [0]]
    return {key: [1 / x for x in row] for key, row in zip("ab",
                                                          rows)}
"""
_SOURCES["match"] = """
class Point:
    __match_args__ = ("x", "y")
    def __init__(self, x, y):
        self.x, self.y = x, y
def what(thing):
    match thing:
        case Point(0, y=0): return "origin"
        case Point(x, y) if x == y: return "diagonal", x
        case Point(x=a): return "point", a
        case [Point(), *rest]: return "list", len(rest)
        case {"k": v, **more}: return "dict", v, more
        case int() | float(): return "number"
        case str(text): return text.upper()
        case (1, _): return "pair"
        case None: return "none"
        case _: return "other"
def run():
    points = [Point(0, 0), Point(2, 2), Point(3, 4), [Point(1, 1), 2]]
    things = [*points, {"k": 1, "z": 2}, 5, 2.5, "s", (1, 2), None, object]
    return [what(t) for t in things]
"""
_SOURCES["match_error"] = """
def run():
    match 5:
        case int(a, b): return 1
"""
_SOURCES["match_not_a_class"] = """
def run():
    number = 5
    match 5:
        case number(): return 1
"""
_SOURCES["functions"] = """
def run(n=3):
    x = n
    def annotated(a: int, /, b: "str" = "b", *, c: float = 2.5, **kw: dict) -> list:
        "doc"
        return a, b, c, kw, x
    defaults = annotated.__defaults__, annotated.__kwdefaults__
    return annotated(1, q=1), *defaults, annotated.__annotations__, annotated.__doc__
"""
_SOURCES["expressions"] = """
def run(a=3, b=None):
    text = f"{a!r:>5} {b} {a.real:0{a}d} {'x'.upper()}"
    values = [0, *range(a), *(v for v in "z")]
    first, *middle, last = values
    values[1:3] = [text]
    if (n := len(values)) > 3 and not (b or n < 2):
        n = n if a is not b else -n
    while n:
        n -= 1
        if n == 2: break
    else:
        n = "no break"
    assert a, values.missing
    return text, values, first, middle, last, n, a in values, a < 5 < 7, -a, {**{"k": a}, "l": b}
"""
_SOURCES["assertion"] = """
def run():
    x = []
    assert x, "message %r" % (x.copy(),)
"""
_SOURCES["locals_and_frames"] = """
import sys
def run(a=1):
    b = 2
    def caller():
        return sys._getframe(1).f_code.co_name, sorted(locals())
    return sorted(locals()), caller(), eval("a + b"), sorted(dir()), sys._getframe().f_lineno
"""
_SOURCES["generic_312"] = """
log = []
def note(f):
    log.append(f.__name__)
    return f
class Holder[K, *Ts, **P]:
    inner = 5
    type Alias[V] = dict[K, V] | inner_type
    inner_type = str
    def method[V: (int, str)](self, x: V, y: K = inner) -> V:
        return x
def run():
    @note
    def generic[T](a: T, b=1, *, c=2) -> T:
        return a, b, c
    @note
    @note
    def simple[T](a: T): return a
    @note
    class C[T](Holder[T, int, [str]]): pass
    type Pair[A] = tuple[A, A]
    type Plain = int
    return (generic(1), generic.__type_params__, simple(2), C.__mro__[1].__name__, str(Pair[int]), Plain.__value__, log,
            Holder.Alias[int].__value__, Holder().method(4), Holder.method.__annotations__)
"""
_SOURCES["inlined_comprehension_names_312"] = """
def make(x):
    def g():
        r = [x for x in range(3)]
        return x, r
    def h():
        return [(lambda: x)() for x in range(2)], x
    return g, h
class Body:
    i = 5
    squares = [i * i for i in range(4)]
    pairs = {i: [j for j in range(i)] for i in range(3)}
def run():
    g, h = make(7)
    return g(), h(), Body.i, Body.squares, Body.pairs
"""


PROGRAMS: dict[str, str] = {
    name: source
    for name, source in (_SOURCES | LARGE).items()
    if not name.endswith("_312") or sys.version_info >= (3, 12)
}
