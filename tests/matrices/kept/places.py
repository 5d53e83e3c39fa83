"""Places where a module holds a value that a function of it reads, as `v`."""

from __future__ import annotations

from .kind import Place

__all__ = ["PLACES"]


def _place(name: str, held: str, read: str, hashable: bool = False, not_kept: str = "") -> Place:
    """A place that the function reads with an expression."""
    return Place(name, f"{held}\ndef f(x):\n    v = {read}\n    return $USE\n", hashable, not_kept)


PLACES = (
    _place("global", "V = $VALUE", "V"),
    _place("class attribute", "class H:\n    v = $VALUE", "H.v"),
    _place("attribute of a base", "class B:\n    v = $VALUE\nclass H(B): pass", "H.v"),
    _place("attribute of a metaclass", "class M(type):\n    v = $VALUE\nclass H(metaclass=M): pass", "H.v"),
    _place("class attribute of a global object", "class H:\n    v = $VALUE\nO = H()", "O.v"),
    _place("attribute of a global object", "class H: pass\nO = H()\nO.v = $VALUE", "O.v"),
    _place("slot", "class H:\n    __slots__ = ('v',)\nO = H()\nO.v = $VALUE", "O.v"),
    _place("attribute of a function", "def g(): pass\ng.v = $VALUE", "g.v"),
    _place("attribute of a layer", "O = torch.nn.ReLU()\nO.v = $VALUE", "O.v"),
    _place("attribute of this module", "V = $VALUE", "sys.modules[__name__].V"),
    Place("default", "def f(x, v=$VALUE):\n    return $USE\n"),
    Place("keyword default", "def f(x, *, v=$VALUE):\n    return $USE\n"),
    _place("default of a callee", "def g(v=$VALUE):\n    return v", "g()"),
    _place("keyword default of a callee", "def g(*, v=$VALUE):\n    return v", "g()"),
    Place("closure", "def make(v):\n    def f(x):\n        return $USE\n    return f\nf = make($VALUE)\n"),
    _place("closure of a callee", "def make(v):\n    return lambda: v\ng = make($VALUE)", "g()"),
    _place("list", "L = [0, $VALUE]", "L[1]"),
    _place("tuple", "L = (0, $VALUE)", "L[1]"),
    _place("nested tuple", "L = (0, (1, $VALUE))", "L[1][1]"),
    _place("dictionary", "L = {'v': $VALUE}", "L['v']"),
    _place("ordered dictionary", "L = collections.OrderedDict(v=$VALUE)", "L['v']"),
    _place("deque", "L = collections.deque([0, $VALUE])", "L[1]"),
    _place("key", "L = {$VALUE: 1}", "next(iter(L))", True),
    _place("set", "L = {$VALUE}", "next(iter(L))", True),
    _place("frozen set", "L = frozenset([$VALUE])", "next(iter(L))", True),
    _place("mapping proxy", "L = types.MappingProxyType({'v': $VALUE})", "L['v']"),
    _place("namespace", "L = types.SimpleNamespace(v=$VALUE)", "L.v"),
    _place("value of an enum", "class E(enum.Enum):\n    A = $VALUE", "E.A.value"),
    _place("attribute of a member", "class E(enum.Enum):\n    A = 1\nE.A.v = $VALUE", "E.A.v"),
    _place("in the code", "", "$VALUE"),
    _place("in the code of a callee", "def g():\n    return $VALUE", "g()"),
    _place(
        "put into the code",
        "def g():\n    return 'held'\ng.__code__ = g.__code__.replace(\n"
        "    co_consts=tuple($VALUE if one == 'held' else one for one in g.__code__.co_consts))",
        "g()",
    ),
    Place("argument", "def f(x, v):\n    return $USE\nARGS = ($VALUE,)\n"),
    Place("keyword argument", "def f(x, *, v):\n    return $USE\nKWARGS = {'v': $VALUE}\n"),
    Place("starred argument", "def f(x, *args):\n    v = args[0]\n    return $USE\nARGS = ($VALUE,)\n"),
    Place("list argument", "def f(x, held):\n    v = held[0]\n    return $USE\nARGS = ([$VALUE],)\n"),
    Place(
        "attribute of an argument",
        "class H: pass\ndef f(x, o):\n    v = o.v\n    return $USE\nO = H()\nO.v = $VALUE\nARGS = (O,)\n",
    ),
    _place("default of a data class", "@dataclasses.dataclass\nclass H:\n    v: object = $VALUE", "H().v"),
    _place(
        "default factory",
        "@dataclasses.dataclass\nclass H:\n    v: object = dataclasses.field(default_factory=lambda: $VALUE)",
        "H().v",
    ),
    _place("field of a data class", "@dataclasses.dataclass\nclass H:\n    v: object\nO = H($VALUE)", "O.v"),
    _place(
        "field of a frozen data class",
        "@dataclasses.dataclass(frozen=True)\nclass H:\n    v: object\nO = H($VALUE)",
        "O.v",
    ),
    _place("default of a named tuple", "class H(typing.NamedTuple):\n    v: object = $VALUE", "H().v"),
    _place("field of a named tuple", "class H(typing.NamedTuple):\n    v: object\nO = H($VALUE)", "O.v"),
    _place(
        "descriptor",
        "class D:\n    def __init__(self, v): self.held = v\n    def __get__(self, o, t=None): return self.held\n"
        "class H:\n    v = D($VALUE)",
        "H().v",
    ),
    _place("property", "V = $VALUE\nclass H:\n    @property\n    def v(self): return V", "H().v"),
    _place(
        "cached property", "V = $VALUE\nclass H:\n    @functools.cached_property\n    def v(self): return V", "H().v"
    ),
    _place("partial", "def g(v): return v\nP = functools.partial(g, $VALUE)", "P()"),
    _place("keyword of a partial", "def g(v): return v\nP = functools.partial(g, v=$VALUE)", "P()"),
    _place(
        "self of a method",
        "class H:\n    def __init__(self, v): self.v = v\n    def get(self): return self.v\nP = H($VALUE).get",
        "P()",
    ),
    _place("cached function", "@functools.lru_cache\ndef g(): return $VALUE", "g()"),
    _place("cached function of a global", "V = $VALUE\n@functools.lru_cache\ndef g(): return V", "g()"),
    _place("annotation", "def g(v: $VALUE): pass", "g.__annotations__['v']"),
    _place("item getter", "P = operator.itemgetter($VALUE)", "P({$VALUE: 'found'}) if True else 0", True),
    _place("static method", "class H:\n    @staticmethod\n    def get(v=$VALUE): return v", "H.get()"),
    _place("class method", "class H:\n    @classmethod\n    def get(cls, v=$VALUE): return v", "H.get()"),
    _place(
        "attribute of a callable object",
        "class H:\n    def __init__(self, v): self.v = v\n    def __call__(self): return self.v\ng = H($VALUE)",
        "g()",
    ),
    _place(
        "attribute by __getattr__", "V = $VALUE\nclass H:\n    def __getattr__(self, name): return V\nO = H()", "O.v"
    ),
)
