"""Kinds of external objects: classes, by the kind of their metaclass."""

from __future__ import annotations

from .kind import Kind, bodies, changes

__all__ = ["KINDS"]

#: what can happen to a class whose attribute `k` holds 2 and which has a method `m`, a static method `s` and a base `B`
CLASS = changes(
    ("set", "$.k = 5", "$.k = 2"),
    ("as bool", "$.k = True", "$.k = 2"),
    ("delete", "del $.k", "$.k = 2"),
    ("add", "$.missing = 9", "del $.missing"),
    ("deep", "$.reg.append(3)", "$.reg.pop()"),
    ("rename", "OLD = $.__name__; $.__name__ = 'Renamed'", "$.__name__ = OLD"),
) + bodies(
    ("patch static", "OLD = $.__dict__['s']; $.s = staticmethod(lambda: 55)", "$.s = OLD"),
    ("method code", "OLD = $.m.__code__; $.m.__code__ = (lambda self: 56).__code__", "$.m.__code__ = OLD"),
    ("doc", "OLD = $.__doc__; $.__doc__ = 'other'", "$.__doc__ = OLD"),
    ("property", "$.k = property(lambda self: 9)", "$.k = 2"),
)
BASE = bodies(
    ("base attribute", "B.base = 5", "B.base = 3"),
    ("base missing", "B.missing = 5", "del B.missing"),
    ("bases", "$.__bases__ = (B2,)", "$.__bases__ = (B,)"),
)
BODY = '''
    """A class."""
    k = 2
    reg = [1, 2]
    def m(self): return 4
    @staticmethod
    def s(): return 5
    @classmethod
    def c(cls): return cls.k
'''
BASES = """
class B:
    base = 3
class B2:
    base = 4
    missing = 6
"""
INT = "import abc\nclass B(metaclass=abc.ABCMeta):\n    base = 3\nclass B2(B):\n    base = 4\n    missing = 6\n"
META = """
class Meta(type):
    @property
    def prop(cls): return cls.k * 10
    def __getattr__(cls, name):
        if name.startswith('_'): raise AttributeError(name)
        return 'meta ' + name
    def __len__(cls): return 3
    def __iter__(cls): return iter((1, 2))
    def __contains__(cls, v): return v == cls.k
    def __getitem__(cls, i): return cls.reg[i]
class B(metaclass=Meta):
    base = 3
class B2(metaclass=Meta):
    base = 4
    missing = 6
"""
WATCHING = """
class Meta(type):
    factor = 2
    def __getattribute__(cls, name):
        found = type.__getattribute__(cls, name)
        return found * Meta.factor if name == 'k' else found
class B(metaclass=Meta):
    base = 3
class B2(metaclass=Meta):
    base = 4
    missing = 6
"""
TENSORS = """
class B(torch.Tensor):
    base = 3
class B2(torch.Tensor):
    base = 4
    missing = 6
"""

KINDS = (
    Kind("class", f"{BASES}class K(B):{BODY}", "K", CLASS + BASE),
    Kind("class with slots", f"{BASES}class K:\n    __slots__ = ('a',){BODY}", "K", CLASS),
    Kind(
        "class ABCMeta",
        f"{INT}class K(B):{BODY}",
        "K",
        CLASS + BASE + bodies(("register", "$.register(int)"), ("register base", "B.register(list)")),
    ),
    Kind(
        "class own metaclass",
        f"{META}class K(B):{BODY}",
        "K",
        CLASS
        + BASE
        + bodies(
            ("metaclass attribute", "Meta.level = 4", "del Meta.level"),
            ("metaclass property", "OLD = Meta.prop; Meta.prop = property(lambda cls: 1)", "Meta.prop = OLD"),
            ("metaclass data descriptor", "Meta.k = property(lambda cls: 99)", "del Meta.k"),
            (
                "metaclass getattr",
                "OLD = Meta.__getattr__; Meta.__getattr__ = lambda cls, name: 'other'",
                "Meta.__getattr__ = OLD",
            ),
            ("metaclass len", "OLD = Meta.__len__; Meta.__len__ = lambda cls: 7", "Meta.__len__ = OLD"),
        ),
    ),
    Kind(
        "class watching metaclass",
        f"{WATCHING}class K(B):{BODY}",
        "K",
        CLASS
        + bodies(
            ("metaclass factor", "Meta.factor = 7", "Meta.factor = 2"),
            (
                "metaclass getattribute",
                "OLD = Meta.__getattribute__; del Meta.__getattribute__",
                "Meta.__getattribute__ = OLD",
            ),
        ),
    ),
    Kind(
        "class enum",
        "class K(enum.Enum):\n    A = 1\n    B = 2\n    @property\n    def k(self): return 2\n    @staticmethod\n"
        "    def s(): return 5\n    def m(self): return 4\n",
        "K",
        bodies(
            ("add", "$.missing = 9", "del $.missing"),
            ("set", "OLD = $.__dict__['k']; $.k = 5", "$.k = OLD"),
            ("member value", "$.A._value_ = 7", "$.A._value_ = 1"),
            ("members", "$._member_map_['C'] = $.A", "del $._member_map_['C']"),
        ),
        attr="A",
        key="'A'",
        item="K.A",
    ),
    Kind(
        "class int flag",
        "class K(enum.IntFlag):\n    A = 1\n    B = 2\n",
        "K",
        bodies(("add", "$.missing = 9", "del $.missing")),
        attr="B",
        key="'B'",
        item="K.B",
    ),
    Kind("class tensor", f"{TENSORS}class K(torch.Tensor):{BODY}", "K", CLASS),
    Kind("class tensor below", f"{TENSORS}class K(B):{BODY}", "K", CLASS + BASE[:2]),
    Kind("class parameter", f"class K(nn.Parameter):{BODY}", "K", CLASS),
    Kind(
        "class torch.Tensor",
        "",
        "torch.Tensor",
        bodies(
            ("add", "$.missing = 9", "del $.missing"),
            ("add k", "$.k = 5", "del $.k"),
            ("patch", "$.sigmoid = lambda self: self * 0", "del $.sigmoid"),
        ),
        attr="sigmoid",
        avoid=("class",),
    ),  # a tensor's class holds addresses
    Kind(
        "class module",
        f"class B(nn.Module):\n    base = 3\nclass B2(nn.Module):\n    base = 4\n    missing = 6\nclass K(B):{BODY}",
        "K",
        CLASS + BASE,
    ),
    Kind("class autograd function", f"class K(torch.autograd.Function):{BODY}", "K", CLASS),
    Kind(
        "class ctypes structure", f"class K(ctypes.Structure):\n    _fields_ = [('f', ctypes.c_int)]{BODY}", "K", CLASS
    ),
    Kind("class ctypes array", f"class K(ctypes.c_int * 3):{BODY}", "K", CLASS),
    Kind("class generic", f"import typing\nT = typing.TypeVar('T')\nclass K(typing.Generic[T]):{BODY}", "K", CLASS),
    Kind(
        "class alias",
        "import typing\nT = typing.TypeVar('T')\nclass G(typing.Generic[T]):\n    k = 2\n",
        "G[int]",
        bodies(("origin attribute", "G.k = 5", "G.k = 2"), ("other argument", "PUT(G[str])")),
    ),
    Kind("class protocol", f"import typing\n@typing.runtime_checkable\nclass K(typing.Protocol):{BODY}", "K", CLASS),
    Kind(
        "class dataclass",
        f"@dataclasses.dataclass\nclass K:\n    f: int = 1{BODY}",
        "K",
        CLASS
        + bodies(
            ("field default", "$.__dataclass_fields__['f'].default = 8", "$.__dataclass_fields__['f'].default = 1")
        ),
    ),
    Kind(
        "class named tuple",
        "import typing\nclass K(typing.NamedTuple):\n    f: int\n    g: int = 2\n    def m(self): return 4\n"
        "K.k = 2; K.reg = [1]; K.s = staticmethod(lambda: 5)",
        "K",
        CLASS[:6],
    ),
    Kind(
        "class typed dict",
        "import typing\nclass K(typing.TypedDict):\n    f: int\n    g: str\n",
        "K",
        bodies(
            ("set", "$.k = 5", "del $.k"),
            (
                "required",
                "OLD = $.__required_keys__; $.__required_keys__ = frozenset('f')",
                "$.__required_keys__ = OLD",
            ),
        ),
        attr="__required_keys__",
    ),
    Kind("class exception", f"class K(ValueError):{BODY}", "K", CLASS),
    Kind("class dict", f"class K(dict):{BODY}", "K", CLASS),
    Kind("class int", f"class K(int):{BODY}", "K", CLASS),
    Kind("class builtin", "", "int", attr="real"),
)
