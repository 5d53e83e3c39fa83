"""Kinds of external objects: functions and other callables."""

from __future__ import annotations

from .kind import Kind, bodies, changes

__all__ = ["KINDS"]

FUNCTION = changes(
    ("set", "$.k = 5", "$.k = 2"), ("delete", "del $.k", "$.k = 2"), ("add", "$.missing = 4", "del $.missing")
) + bodies(
    ("code", "OLD = $.__code__; $.__code__ = OTHER_CODE", "$.__code__ = OLD"),
    ("defaults", "$.__defaults__ = (7,)", "$.__defaults__ = (2,)"),
    ("keyword defaults", "$.__kwdefaults__ = {'c': 8}", "$.__kwdefaults__ = {'c': 3}"),
    ("keyword default", "$.__kwdefaults__['c'] = 8", "$.__kwdefaults__['c'] = 3"),
    (
        "name",
        "OLD = $.__name__, $.__qualname__; $.__name__ = $.__qualname__ = 'renamed'",
        "$.__name__, $.__qualname__ = OLD",
    ),
    ("doc", "$.__doc__ = 'other'", "$.__doc__ = 'Text.'"),
    ("annotations", "$.__annotations__ = {'a': str}", "$.__annotations__ = {'a': int}"),
    ("annotation", "$.__annotations__['a'] = float", "$.__annotations__['a'] = int"),
    ("global", "PLUS = 9", "PLUS = 1"),
    ("module", "OLD = $.__module__; $.__module__ = 'other'", "$.__module__ = OLD"),
)
CLOSURE = bodies(("cell", "$.__closure__[0].cell_contents = 9", "$.__closure__[0].cell_contents = 1"))
DEF = '''
PLUS = 1
def make_function():
    def f(a: int = 2, *, c=3):
        """Text."""
        return a, c, PLUS
    f.k = 2
    return f
def make_closure():
    inner = 1
    def f(a: int = 2, *, c=3):
        """Text."""
        return a, c, inner
    f.k = 2
    return f
F = make_function()
OTHER_CODE = (lambda a=2, *, c=3: (a, c, 'other')).__code__
'''
CLOSED = DEF.replace(
    "OTHER_CODE = (lambda a=2, *, c=3: (a, c, 'other')).__code__",
    "OTHER_CODE = (lambda inner: lambda a=2, *, c=3: (a, c, inner, 'other'))(1).__code__",
)
CLS = (
    "class C:\n    def __init__(self): self.k = 2\n    def f(self, a=1): return self.k, a\n    @classmethod\n"
    "    def g(cls, a=1): return cls.z, a\n    z = 3\n    @staticmethod\n    def h(a=1): return a\nI = C()\n"
)

KINDS = (
    Kind("function", DEF, "make_function()", FUNCTION),
    Kind("closure", CLOSED, "make_closure()", FUNCTION + CLOSURE),
    Kind(
        "lambda",
        "PLUS = 1\nOTHER_CODE = (lambda a=2, *, c=3: (a, 'other')).__code__\ndef made():\n"
        "    f = lambda a=2, *, c=3: (a, c, PLUS)\n    f.k = 2\n    return f\n",
        "made()",
        FUNCTION,
    ),
    Kind(
        "generator function",
        "PLUS = 1\ndef made():\n    def f(a=2):\n        yield a\n        yield PLUS\n    f.k = 2\n    return f\n",
        "made()",
        FUNCTION[:3] + FUNCTION[4:5] + FUNCTION[11:12],
    ),
    Kind(
        "wrapped function",
        DEF + "def made():\n    @functools.wraps(F)\n    def w(*a, **k): return ('w', F(*a, **k))\n    return w\n",
        "made()",
        changes(("set", "$.k = 5", "$.k = 2"))
        + bodies(
            ("wrapped", "OLD = $.__wrapped__; $.__wrapped__ = lambda q: 1", "$.__wrapped__ = OLD"),
            ("below", "F.__defaults__ = (9,)", "F.__defaults__ = (2,)"),
            ("signature", "$.__signature__ = inspect.Signature()", "del $.__signature__"),
        ),
    ),
    Kind(
        "partial",
        DEF,
        "functools.partial(F, 4, c=5)",
        changes(("keyword", "$.keywords['c'] = 8", "$.keywords['c'] = 5"), ("set", "$.k = 5", "del $.k"))
        + bodies(
            ("below", "F.__code__, OLD = OTHER_CODE, F.__code__", "F.__code__ = OLD"),
            ("other", "PUT(functools.partial(F, 5))"),
            ("state", "$.__setstate__((F, (6,), {}, None))"),
        ),
        attr="args",
    ),
    Kind(
        "partial subclass",
        DEF + "class P(functools.partial):\n    k = 2\n    def __call__(self, *a): return P.k\n",
        "P(F, 4)",
        bodies(
            ("class attribute", "P.k = 5", "P.k = 2"), ("patch", "OLD = P.__call__; del P.__call__", "P.__call__ = OLD")
        ),
    ),
    Kind(
        "bound method",
        CLS,
        "I.f",
        changes(("self", "I.k = 5", "I.k = 2"))
        + bodies(
            ("code", "OLD = C.f.__code__; C.f.__code__ = (lambda self, a=1: 'other').__code__", "C.f.__code__ = OLD"),
            ("replaced", "OLD = C.f; C.f = lambda s: 1", "C.f = OLD"),
            ("function attribute", "C.f.missing = 4", "del C.f.missing"),
            ("defaults", "C.f.__defaults__ = (8,)", "C.f.__defaults__ = (1,)"),
        ),
        attr="__self__",
    ),
    Kind(
        "class method",
        CLS,
        "C.g",
        bodies(
            ("class attribute", "C.z = 5", "C.z = 3"),
            (
                "code",
                "OLD = C.g.__func__.__code__; C.g.__func__.__code__ = (lambda cls, a=1: 'other').__code__",
                "C.g.__func__.__code__ = OLD",
            ),
        ),
        attr="__func__",
    ),
    Kind(
        "bound method of builtin",
        "DATA = [1, 2]\n",
        "DATA.count",
        changes(("self", "DATA.append(2)", "DATA.pop()")),
        attr="__self__",
    ),
    Kind(
        "staticmethod object",
        CLS,
        "C.__dict__['h']",
        changes(("set", "$.k = 5", "del $.k"))
        + bodies(("code", "OLD = C.h.__code__; C.h.__code__ = (lambda a=1: 'other').__code__", "C.h.__code__ = OLD")),
        attr="__func__",
    ),
    Kind("classmethod object", CLS, "C.__dict__['g']", changes(("set", "$.k = 5", "del $.k")), attr="__func__"),
    Kind(
        "property object",
        "class C:\n    def get(self): return 1\n    p = property(get, doc='d')\n",
        "C.__dict__['p']",
        bodies(
            ("doc", "$.__doc__ = 'other'", "$.__doc__ = 'd'"),
            ("getter code", "OLD = C.get.__code__; C.get.__code__ = (lambda self: 5).__code__", "C.get.__code__ = OLD"),
        ),
        attr="fget",
    ),
    Kind(
        "lru cache",
        "PLUS = 1\ndef made():\n    @functools.lru_cache\n    def f(a=2): return a + PLUS\n    f.k = 2\n    return f\n",
        "made()",
        changes(("set", "$.k = 5", "$.k = 2"), ("fill", "$()"), ("clear", "$.cache_clear()"))
        + bodies(
            ("global", "PLUS = 9", "PLUS = 1"),
            ("global, cleared", "PLUS = 9; $.cache_clear()", "PLUS = 1; $.cache_clear()"),
        ),
    ),
    Kind(
        "single dispatch",
        "def made():\n    @functools.singledispatch\n    def f(a=2): return 'any'\n"
        "    f.register(int, lambda a: 'int')\n    return f\n",
        "made()",
        bodies(
            ("register", "$.register(torch.Tensor, lambda a: 'tensor')"),
            ("register int", "$.register(int, lambda a: 'other')"),
        ),
        attr="registry",
    ),
    Kind(
        "attrgetter",
        "",
        "operator.attrgetter('shape')",
        bodies(("other", "PUT(operator.attrgetter('dtype'))"), ("two", "PUT(operator.attrgetter('dtype', 'shape'))")),
        attr="__class__",
    ),
    Kind(
        "itemgetter",
        "",
        "operator.itemgetter(0)",
        bodies(("other", "PUT(operator.itemgetter(1))"), ("two", "PUT(operator.itemgetter(1, 0))")),
        attr="__class__",
    ),
    Kind(
        "methodcaller",
        "",
        "operator.methodcaller('sum')",
        bodies(("other", "PUT(operator.methodcaller('mean'))"), ("argument", "PUT(operator.methodcaller('sum', 0))")),
        attr="__class__",
    ),
    Kind("builtin function", "", "len", bodies(("other", "PUT(abs)"), ("python", "PUT(lambda v: 7)")), attr="__name__"),
    Kind("method descriptor", "", "list.append", bodies(("other", "PUT(list.count)")), attr="__name__"),
    Kind(
        "torch function",
        "",
        "torch.sin",
        bodies(("other", "PUT(torch.cos)"), ("attribute", "PUT(torch.nn.functional.relu)")),
        attr="__name__",
    ),
    Kind(
        "callable object",
        "class C:\n    def __init__(self): self.k = 2\n    def __call__(self, a=1): return self.k, a\n"
        "class D:\n    def __call__(self): return 'd'\n",
        "C()",
        changes(("set", "$.k = 5", "$.k = 2"))
        + bodies(
            ("patch", "OLD = C.__call__; C.__call__ = lambda s, a=1: 'other'", "C.__call__ = OLD"),
            ("shadow", "$.__call__ = lambda: 9", "del $.__call__"),
            ("class of", "$.__class__ = D", "$.__class__ = C"),
        ),
    ),
    Kind(
        "code",
        DEF,
        "F.__code__",
        bodies(("other", "PUT(OTHER_CODE)"), ("replace", "PUT(F.__code__.replace(co_name='g'))")),
        attr="co_name",
    ),
    Kind(
        "cell",
        "def made():\n    v = 2\n    return (lambda: v).__closure__[0]\n",
        "made()",
        changes(
            ("set", "$.cell_contents = 5", "$.cell_contents = 2"),
            ("delete", "del $.cell_contents", "$.cell_contents = 2"),
        ),
        attr="cell_contents",
    ),
)
