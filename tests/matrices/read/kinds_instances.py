"""Kinds of external objects: instances, by how their class keeps and answers attributes."""

from __future__ import annotations

from .kind import Kind, bodies, changes, instance_changes

__all__ = ["KINDS"]

BODY = """
    def m(self): return self.k + 1
    def __init__(self): self.k = 2; self.deep = {'a': [1, {'b': 2}]}
"""
PLAIN = f"class B:\n    base = 3\nclass C(B):{BODY}class D(B):\n    k = 20\n    def m(self): return 21\n"
DEEP = changes(
    ("deep", "$.deep['a'][1]['b'] = 7", "$.deep['a'][1]['b'] = 2"),
    ("clear dict", "$.__dict__.clear()", "$.__init__()"),
    ("dict item", "vars($)['k'] = 6", "$.k = 2"),
    ("shadow method", "$.m = abs", "del $.m"),
    ("reorder", "$.__dict__['k'] = $.__dict__.pop('k')", "PUT(MAKE())"),
) + bodies(
    ("base attribute", "B.base = 5; B.missing = 6", "B.base = 3; del B.missing"),
    ("shadow in between", "C.base = 9", "del C.base"),
)
SLOTS = changes(
    ("set", "$.k = 5", "$.k = 2"), ("as float", "$.k = 2.0", "$.k = 2"), ("delete", "del $.k", "$.k = 2")
) + bodies(
    ("replace slot", "OLD = C.__dict__['k']; C.k = property(lambda self: 66)", "C.k = OLD"),
    ("class missing", "C.missing = 8", "del C.missing"),
    ("patch method", "OLD = C.m; C.m = lambda self: 55", "C.m = OLD"),
    ("class of", "$.__class__ = D", "$.__class__ = C"),
)

KINDS = (
    Kind("instance", PLAIN, "C()", instance_changes("C") + DEEP),
    Kind(
        "instance slots",
        "class C:\n    __slots__ = ('k',)\n    def __init__(self): self.k = 2\n    def m(self): return self.k\n"
        "class D:\n    __slots__ = ('k',)\n    def m(self): return 21\n",
        "C()",
        SLOTS,
    ),
    Kind(
        "instance slots and dict",
        "class B:\n    __slots__ = ('k',)\n    base = 3\nclass C(B):\n"
        "    def __init__(self): self.k = 2; self.z = 1\n    def m(self): return self.k\n"
        "class D(B): \n    def m(self): return 21\n",
        "C()",
        SLOTS[:3]
        + SLOTS[4:]
        + changes(("add", "$.missing = 1", "del $.missing"), ("shadow slot", "C.k = 9", "del C.k")),
    ),
    Kind(
        "instance getattr",
        f"class C:{BODY}    def __getattr__(self, name):\n        if name.startswith('_'): raise AttributeError(name)\n"
        "        return C.prefix + name\n    prefix = 'made '\nclass D(C): pass\n",
        "C()",
        instance_changes("C")[:6]
        + bodies(
            ("prefix", "C.prefix = 'other '", "C.prefix = 'made '"),
            ("patch getattr", "OLD = C.__getattr__; C.__getattr__ = lambda s, name: 3", "C.__getattr__ = OLD"),
        ),
    ),
    Kind(
        "instance getattribute",
        f"class C:{BODY}    factor = 3\n    def __getattribute__(self, name):\n"
        "        found = object.__getattribute__(self, name)\n"
        "        return found * C.factor if name == 'k' else found\nclass D(C): pass\n",
        "C()",
        instance_changes("C")[:5]
        + bodies(
            ("factor", "C.factor = 4", "C.factor = 3"),
            ("patch getattribute", "OLD = C.__getattribute__; del C.__getattribute__", "C.__getattribute__ = OLD"),
        ),
    ),
    Kind(
        "instance property",
        "class C:\n    def __init__(self): self._k = 2\n    @property\n    def k(self): return self._k + C.plus\n"
        "    @k.setter\n    def k(self, v): self._k = v\n    plus = 0\n    def m(self): return self._k\n"
        "class D:\n    k = 1\n",
        "C()",
        changes(
            ("set", "$.k = 5", "$.k = 2"),
            ("behind", "$._k = 6", "$._k = 2"),
            ("shadow", "$.__dict__['k'] = 8", "del $.__dict__['k']"),
        )
        + bodies(
            ("what it reads", "C.plus = 4", "C.plus = 0"),
            ("other property", "OLD = C.k; C.k = property(lambda s: 9)", "C.k = OLD"),
            (
                "getter code",
                "OLD = C.k.fget.__code__; C.k.fget.__code__ = (lambda self: 56).__code__",
                "C.k.fget.__code__ = OLD",
            ),
            ("class of", "$.__class__ = D", "$.__class__ = C"),
        ),
    ),
    Kind(
        "instance cached property",
        "class C:\n    base = 2\n    @functools.cached_property\n    def k(self): return C.base + 1\n"
        "    def m(self): return 4\n",
        "C()",
        changes(("forget", "$.__dict__.pop('k', None)", ""), ("set", "$.k = 9", "$.__dict__.pop('k', None)"))
        + bodies(("what it reads", "C.base = 7; $.__dict__.pop('k', None)", "C.base = 2; $.__dict__.pop('k', None)")),
    ),
    Kind(
        "instance descriptor",
        "class Desc:\n    def __init__(self, v): self.v = v\n"
        "    def __get__(self, o, owner): return self if o is None else self.v + o.n\n"
        "class Data(Desc):\n    def __set__(self, o, v): o.n = v\nclass C:\n    k = Data(1)\n"
        "    low = Desc(5)\n    def __init__(self): self.n = 1\n    def m(self): return self.low\n",
        "C()",
        changes(
            ("set", "$.k = 5", "$.n = 1"),
            ("state", "C.__dict__['k'].v = 8", "C.__dict__['k'].v = 1"),
            ("shadow low", "$.low = 3", "del $.low"),
            ("shadow data", "$.__dict__['k'] = 4", "del $.__dict__['k']"),
        )
        + bodies(
            ("patch get", "OLD = Desc.__get__; Desc.__get__ = lambda s, o, owner: 44", "Desc.__get__ = OLD"),
            (
                "lose set",
                "OLD = Data.__set__; del Data.__set__; $.__dict__['k'] = 6",
                "Data.__set__ = OLD; del $.__dict__['k']",
            ),
        ),
    ),
    Kind(
        "instance dataclass",
        "@dataclasses.dataclass\nclass C:\n    k: int = 2\n"
        "    items: list = dataclasses.field(default_factory=lambda: [1, 2])\n"
        "    def m(self): return self.k + 1\n"
        "@dataclasses.dataclass\nclass D:\n    k: int = 20\n    def m(self): return 1\n",
        "C()",
        instance_changes("C")[:5]
        + changes(("deep", "$.items.append(3)", "$.items.pop()"))
        + bodies(
            ("default", "C.k = 9", "C.k = 2"),
            ("eq", "OLD = C.__eq__; C.__eq__ = lambda s, o: 'eq'", "C.__eq__ = OLD"),
            ("fields", "OLD = C.__dataclass_fields__; C.__dataclass_fields__ = {}", "C.__dataclass_fields__ = OLD"),
            ("class of", "$.__class__ = D", "$.__class__ = C"),
        ),
    ),
    Kind(
        "instance frozen dataclass",
        "@dataclasses.dataclass(frozen=True, order=True)\nclass C:\n    k: int = 2\n    z: int = 1\n"
        "    def m(self): return self.k\n",
        "C()",
        changes(("set", "object.__setattr__($, 'k', 5)", "object.__setattr__($, 'k', 2)"), ("refused", "$.k = 5", ""))
        + bodies(("hash", "OLD = C.__hash__; C.__hash__ = lambda s: 1", "C.__hash__ = OLD")),
    ),
    Kind(
        "instance attrs",
        "try:\n    import attr\nexcept ImportError:\n    attr = None\nif attr:\n"
        "    C = attr.make_class('C', {'k': attr.ib(default=2), 'z': attr.ib(factory=list)})\n"
        "else:\n    class C: k = 2\nC.__module__ = 'elsewhere'\n",
        "C()",
        changes(("set", "$.k = 5", "$.k = 2"), ("deep", "$.z.append(1)", "$.z.pop()")),
    ),
    Kind(
        "instance pydantic",
        "try:\n    import pydantic\n    class C(pydantic.BaseModel):\n        k: int = 2\n"
        "        z: list = []\n    C.__module__ = 'elsewhere'\nexcept ImportError:\n    class C: k = 2\n",
        "C()",
        changes(("set", "$.k = 5", "$.k = 2"), ("deep", "$.z.append(1)", "$.z.pop()")),
    ),
    Kind(
        "simple namespace",
        "",
        "types.SimpleNamespace(k=2, items=[1, 2])",
        changes(
            ("set", "$.k = 5", "$.k = 2"),
            ("as bool", "$.k = True", "$.k = 2"),
            ("delete", "del $.k"),
            ("add", "$.missing = 1", "del $.missing"),
            ("deep", "$.items.append(3)", "$.items.pop()"),
        ),
    ),
    Kind(
        "instance with all protocols",
        "class C:\n    k = 2\n    data = [1, 2, 3]\n    def m(self): return 4\n"
        "    def __len__(self): return len(C.data)\n    def __iter__(self): return iter(C.data)\n"
        "    def __getitem__(self, i): return C.data[i]\n    def __contains__(self, v): return v in C.data\n"
        "    def __call__(self, *a): return C.k\n    def __enter__(self): return C.k\n"
        "    def __exit__(self, *a): C.data.append(0); return False\n    def __bool__(self): return C.k > 2\n"
        "    def __eq__(self, o): return C.k\n    def __lt__(self, o): return C.k > 2\n"
        "    def __hash__(self): return C.k\n    def __repr__(self): return f'C{C.k}'\n"
        "    def __format__(self, s): return f'F{C.k}'\n    def __int__(self): return C.k\n"
        "    def __float__(self): return float(C.k)\n"
        "    def __index__(self): return C.k\n    def __add__(self, o): return C.k\n"
        "    def __radd__(self, o): return C.k\n    def __mul__(self, o): return C.k\n"
        "    def __rmul__(self, o): return C.k\n"
        "    def keys(self): return ['p', 'q']\n    def __dir__(self): return ['z', str(C.k)]\n"
        "    def __copy__(self): return C.k\n    def __reversed__(self): return iter([C.k])\n"
        "    def __abs__(self): return C.k\n"
        "    def __reduce__(self): return (int, (C.k,))\n    def __neg__(self): return -C.k\n",
        "C()",
        bodies(
            ("class attribute", "C.k = 5", "C.k = 2"),
            ("deep", "C.data[0] = 9", "C.data[0] = 1"),
            (
                "patch all",
                "OLD = dict(vars(C))\n"
                "for n in ('__len__', '__iter__', '__getitem__', '__contains__', '__call__', '__bool__', '__repr__', "
                "'__enter__', '__hash__', '__add__', '__mul__', '__rmul__', '__int__', '__lt__', '__eq__', '__dir__', "
                "'__format__', '__index__', '__float__', '__abs__', '__copy__'): "
                "setattr(C, n, {'__len__': lambda s: 1, '__iter__': lambda s: iter([7]), '__bool__': lambda s: True, "
                "'__repr__': lambda s: 'r', '__hash__': lambda s: 3, '__dir__': lambda s: ['d'], "
                "'__format__': lambda s, f: 'f', '__float__': lambda s: 8.5}.get(n, lambda s, *a: 8))",
                "for n, v in OLD.items():\n    if callable(v): setattr(C, n, v)",
            ),
            (
                "delete all",
                (
                    "OLD = dict(vars(C))\n"
                    "for n in ('__len__', '__iter__', '__contains__', '__bool__', '__repr__', '__hash__', '__add__', "
                    "'__rmul__', '__int__', '__lt__', '__eq__', '__dir__', '__format__'): delattr(C, n)"
                ),
                "for n, v in OLD.items():\n    if callable(v): setattr(C, n, v)",
            ),
        ),
        endless=False,
    ),
    Kind(
        "enum member",
        "class E(enum.Enum):\n    A = 1\n    B = 2\n    def m(self): return self.value\n    @property\n"
        "    def k(self): return E.plus + self.value\nE.plus = 0\n",
        "E.A",
        bodies(
            ("other member", "PUT(E.B)", "PUT(E.A)"),
            ("value", "E.A._value_ = 5", "E.A._value_ = 1"),
            ("attribute", "E.A.missing = 3", "del E.A.missing"),
            ("what it reads", "E.plus = 3", "E.plus = 0"),
        ),
        attr="value",
    ),
    Kind(
        "flag member",
        "class E(enum.IntFlag):\n    A = 1\n    B = 2\n",
        "E.A | E.B",
        bodies(("other", "PUT(E.A)"), ("number", "PUT(3)")),
        attr="value",
    ),
    Kind(
        "exception",
        "class Bad(ValueError):\n    k = 2\n",
        "Bad('text', 3)",
        changes(
            ("args", "$.args = (4,)", "$.args = ('text', 3)"),
            ("set", "$.k = 5", "del $.k"),
            ("note", "$.add_note('n')"),
            ("cause", "$.__cause__ = KeyError(1)"),
        ),
        attr="args",
    ),
    Kind(
        "named tuple",
        "import collections\nP = collections.namedtuple('P', 'k z')\n",
        "P(2, [1, 2])",
        bodies(
            ("other", "PUT(P(5, [1, 2]))"),
            ("as float", "PUT(P(2.0, [1, 2]))"),
            ("class attribute", "P.missing = 4", "del P.missing"),
            ("plain tuple", "PUT((2, [1, 2]))"),
            ("field", "OLD = P.k; P.k = property(lambda s: 31)", "P.k = OLD"),
        )
        + changes(("deep", "$.z.append(3)", "$.z.pop()")),
    ),
    Kind(
        "proxy with class",
        "class C:\n    k = 2\n    seen = int\n    @property\n    def __class__(self): return C.seen\n"
        "    def m(self): return 4\n",
        "C()",
        bodies(("set", "C.k = 5", "C.k = 2"), ("claims", "C.seen = str", "C.seen = int")),
    ),
    Kind(
        "instance of abc",
        "import abc\nclass B(abc.ABC):\n    base = 3\n    @abc.abstractmethod\n    def m(self): ...\n"
        "class C(B):\n    k = 2\n    def m(self): return self.k\nclass D(B):\n    k = 3\n"
        "    def m(self): return 21\n",
        "C()",
        bodies(
            ("class attribute", "C.k = 5", "C.k = 2"),
            ("base attribute", "B.base = 5", "B.base = 3"),
            ("class of", "$.__class__ = D", "$.__class__ = C"),
            ("patch method", "OLD = C.m; C.m = lambda self: 55", "C.m = OLD"),
        )
        + changes(("shadow", "$.k = 6", "del $.k")),
    ),
)
