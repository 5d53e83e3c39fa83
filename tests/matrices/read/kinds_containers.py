"""Kinds of external objects: containers and Python subclasses of them, iterators, text, bytes and arrays."""

from __future__ import annotations

from .kind import Change, Kind, bodies, changes

__all__ = ["KINDS"]

LIST = changes(
    ("set item", "$[0] = 5", "$[0] = 1"),
    ("as float", "$[0] = 1.0", "$[0] = 1"),
    ("as bool", "$[0] = True", "$[0] = 1"),
    ("append", "$.append(9)", "$.pop()"),
    ("delete", "del $[0]", "$.insert(0, 1)"),
    ("reverse", "$.reverse()", "$.reverse()"),
    ("deep", "$[2][0] = 7", "$[2][0] = 3"),
    ("equal element", "$[2] = [3, 4]", "$[2] = [3, 4]"),
)
DICT = changes(
    ("set item", "$['p'] = 5", "$['p'] = 1"),
    ("as float", "$['p'] = 1.0", "$['p'] = 1"),
    ("add", "$['new'] = 9", "del $['new']"),
    ("delete", "del $['p']"),
    ("reorder", "$['p'] = $.pop('p')"),
    ("update", "$.update(p=4, q=5)"),
    ("deep", "$['z'][0] = 7", "$['z'][0] = 3"),
    ("key", "$[True] = $.pop('p')"),
    ("clear", "$.clear()"),
)
SET = changes(
    ("add", "$.add(9)", "$.discard(9)"),
    ("remove", "$.discard(2)", "$.add(2)"),
    ("as float", "$.discard(2); $.add(2.0)", "$.discard(2); $.add(2)"),
    ("clear", "$.clear()"),
    ("same size", "$.discard(2); $.add(7)"),
)
SUB = (
    "class S({base}):\n    k = 2\n    def m(self): return len(self)\n"
    "    def __getitem__(self, i): return S.k if i == 0 else super().__getitem__(i)\n"
    "    def __len__(self): return super().__len__() + S.plus\n    plus = 0\n"
)
SUBCHANGES = bodies(
    ("class attribute", "S.k = 5", "S.k = 2"),
    ("len", "S.plus = 1", "S.plus = 0"),
    ("patch", "OLD = S.__len__; del S.__len__", "S.__len__ = OLD"),
    ("iter", "S.__iter__ = lambda self: iter([8])", "del S.__iter__"),
) + changes(("attribute", "$.extra = 3", "del $.extra"))


def values(*rows: tuple[str, str]) -> tuple[Change, ...]:
    """Other objects at the place."""
    return bodies(*((name, f"PUT({text})") for name, text in rows))


KINDS = (
    Kind(
        "list",
        "",
        "[1, 2, [3, 4]]",
        LIST + changes(("sort", "$.pop(); $.sort(key=lambda v: -v)"), ("slice", "$[0:1] = [8, 8]")),
        attr="append",
    ),
    Kind(
        "list of tensors",
        "",
        "[torch.ones(2), torch.zeros(2)]",
        changes(
            ("set item", "$[0] = torch.full((2,), 5.)"),
            ("append", "$.append(torch.ones(2))"),
            ("in place", "$[0].add_(1)"),
            ("same", "$[1] = $[0]"),
        ),
        item="o",
        attr="copy",
    ),
    Kind("list subclass", SUB.format(base="list"), "S([1, 2, [3, 4]])", LIST + SUBCHANGES),
    Kind(
        "tuple",
        "",
        "(1, 2, [3, 4])",
        values(
            ("other", "(5, 2, [3, 4])"),
            ("as float", "(1.0, 2, [3, 4])"),
            ("shorter", "(1, 2)"),
            ("list", "[1, 2, [3, 4]]"),
        )
        + changes(("deep", "$[2][0] = 7", "$[2][0] = 3")),
        attr="count",
    ),
    Kind(
        "tuple subclass",
        "class S(tuple):\n    k = 2\n    def m(self): return S.k\n"
        "    def __getitem__(self, i): return S.k if i == 0 else super().__getitem__(i)\n",
        "S((1, 2, [3, 4]))",
        SUBCHANGES[:1]
        + bodies(("iter", "S.__iter__ = lambda self: iter([8])", "del S.__iter__"), ("other", "PUT(S((5, 2)))"))
        + changes(("attribute", "$.missing = 3", "del $.missing"), ("deep", "$[2][0] = 7", "$[2][0] = 3")),
    ),
    Kind("dict", "", "{'p': 1, 'q': 2, 'z': [3, 4]}", DICT, attr="get", key="'p'", item="'p'"),
    Kind(
        "dict with number keys",
        "",
        "{1: 'a', 2: 'b', (1, 2): 'c'}",
        changes(
            ("set item", "$[1] = 5", "$[1] = 'a'"),
            ("float key", "$.pop(1); $[1.0] = 'a'"),
            ("bool key", "$.pop(1); $[True] = 'a'"),
            ("delete", "del $[2]"),
            ("add", "$[3] = 4"),
        ),
        attr="items",
        key="1",
        item="1",
    ),
    Kind(
        "dict subclass",
        SUB.format(base="dict"),
        "S({'p': 1, 'q': 2, 'z': [3, 4], 0: 6})",
        DICT[:7] + SUBCHANGES,
        key="'p'",
        item="'p'",
    ),
    Kind(
        "dict with missing",
        "class S(dict):\n    k = 2\n    def __missing__(self, key): return S.k\n",
        "S(p=1)",
        bodies(
            ("class attribute", "S.k = 5", "S.k = 2"),
            ("patch", "OLD = S.__missing__; S.__missing__ = lambda s, key: 9", "S.__missing__ = OLD"),
        )
        + changes(("add", "$['none'] = 3", "del $['none']")),
        key="'none'",
        item="'none'",
    ),
    Kind(
        "ordered dict",
        "import collections",
        "collections.OrderedDict(p=1, q=2, z=[3, 4])",
        DICT + changes(("move", "$.move_to_end('p')"), ("attribute", "$.k = 1", "del $.k")),
        attr="keys",
        key="'p'",
        item="'p'",
    ),
    Kind(
        "default dict",
        "import collections",
        "collections.defaultdict(list, p=1, q=2, z=[3, 4])",
        DICT[:7]
        + changes(("factory", "$.default_factory = int", "$.default_factory = list"), ("read new", "$['fresh']")),
        attr="default_factory",
        key="'p'",
        item="'p'",
    ),
    Kind(
        "counter",
        "import collections",
        "collections.Counter('abca')",
        changes(
            ("update", "$.update('b')", "$.subtract('b')"),
            ("set item", "$['a'] = 9", "$['a'] = 2"),
            ("delete", "del $['a']"),
        ),
        attr="total",
        key="'a'",
        item="'a'",
    ),
    Kind(
        "chain map",
        "import collections",
        "collections.ChainMap({'p': 1}, {'p': 2, 'q': 3})",
        changes(
            ("set item", "$['p'] = 5", "$['p'] = 1"),
            ("below", "$.maps[1]['q'] = 6", "$.maps[1]['q'] = 3"),
            ("delete", "del $['p']"),
            ("maps", "$.maps.reverse()", "$.maps.reverse()"),
        ),
        attr="maps",
        key="'p'",
        item="'p'",
    ),
    Kind(
        "user dict",
        "import collections",
        "collections.UserDict(p=1, q=2)",
        changes(("set item", "$['p'] = 5", "$['p'] = 1"), ("data", "$.data = {'p': 3}")),
        attr="data",
        key="'p'",
        item="'p'",
    ),
    Kind(
        "user list",
        "import collections",
        "collections.UserList([1, 2])",
        changes(("set item", "$[0] = 5", "$[0] = 1"), ("data", "$.data = [2]")),
        attr="data",
    ),
    Kind(
        "mapping proxy",
        "INNER = {'p': 1, 'q': 2}\n",
        "types.MappingProxyType(INNER)",
        changes(("below", "INNER['p'] = 5", "INNER['p'] = 1"), ("add", "INNER['new'] = 5", "del INNER['new']")),
        attr="get",
        key="'p'",
        item="'p'",
    ),
    Kind(
        "dict keys",
        "INNER = {'p': 1, 'q': 2}\n",
        "INNER.keys()",
        changes(("add", "INNER['new'] = 5", "del INNER['new']"), ("delete", "del INNER['p']", "INNER['p'] = 1")),
        attr="mapping",
        item="'p'",
    ),
    Kind(
        "dict items",
        "INNER = {'p': 1, 'q': 2}\n",
        "INNER.items()",
        changes(("set", "INNER['p'] = 5", "INNER['p'] = 1"), ("delete", "del INNER['p']", "INNER['p'] = 1")),
        attr="isdisjoint",
        item="('p', 1)",
    ),
    Kind("set", "", "{1, 2, 'a'}", SET, attr="add"),
    Kind(
        "set subclass",
        "class S(set):\n    k = 2\n    def __contains__(self, v): return S.k == v\n",
        "S({1, 2})",
        SET + SUBCHANGES[:1],
    ),
    Kind(
        "frozen set",
        "",
        "frozenset({1, 2})",
        values(("other", "frozenset({1, 3})"), ("as float", "frozenset({1.0, 2})"), ("set", "{1, 2}")),
        attr="union",
    ),
    Kind(
        "deque",
        "import collections",
        "collections.deque([1, 2, [3, 4]], maxlen=4)",
        LIST
        + changes(("left", "$.appendleft(8)"), ("rotate", "$.rotate()", "$.rotate(-1)"))
        + values(("maxlen", "collections.deque([1, 2, [3, 4]], maxlen=3)")),
        attr="maxlen",
    ),
    Kind(
        "deque subclass",
        "import collections\nclass S(collections.deque):\n    k = 2\n    def __len__(self): return S.k\n",
        "S([1, 2, [3, 4]])",
        LIST[:6] + SUBCHANGES[:1],
    ),
    Kind(
        "torch.Size",
        "",
        "torch.Size([1, 2])",
        values(("other", "torch.Size([5, 2])"), ("tuple", "(1, 2)"), ("longer", "torch.Size([1, 2, 3])")),
        attr="numel",
    ),
    Kind(
        "range",
        "",
        "range(1, 9, 2)",
        values(("other", "range(2, 9, 2)"), ("equal", "range(1, 8, 2)"), ("empty", "range(0)")),
        attr="stop",
    ),
    Kind(
        "slice",
        "",
        "slice(0, 2, None)",
        values(("other", "slice(1, 2, None)"), ("float", "slice(0, 2.0, None)")),
        attr="stop",
    ),
    Kind(
        "text",
        "",
        "'text'",
        values(("other", "'other'"), ("subclass", "type('T', (str,), {'k': 1})('text')"), ("bytes", "b'text'")),
        attr="upper",
        item="'t'",
    ),
    Kind(
        "text subclass",
        "class S(str):\n    k = 2\n    def __str__(self): return f's{S.k}'\n    def __len__(self): return S.k\n",
        "S('text')",
        SUBCHANGES[:1] + changes(("attribute", "$.missing = 3", "del $.missing")),
        item="'t'",
    ),
    Kind(
        "bytes",
        "",
        "b'text'",
        values(("other", "b'other'"), ("bytearray", "bytearray(b'text')")),
        attr="hex",
        item="116",
    ),
    Kind(
        "bytearray",
        "",
        "bytearray(b'text')",
        changes(
            ("set item", "$[0] = 65", "$[0] = 116"), ("append", "$.append(1)", "$.pop()"), ("extend", "$ += b'12'")
        ),
        attr="hex",
        item="116",
    ),
    Kind(
        "memoryview",
        "",
        "memoryview(bytearray(b'text'))",
        changes(("set item", "$[0] = 65", "$[0] = 116")),
        attr="nbytes",
        item="116",
    ),
    # CPython's `iter` of a released one gives an iterator and sets an exception beside it
    Kind(
        "released memoryview",
        "",
        "memoryview(bytearray(b'text'))",
        changes(("release", "$.release()")),
        attr="nbytes",
        item="116",
        avoid=("walk",),
    ),
    Kind(
        "array.array",
        "import array",
        "array.array('i', [1, 2, 3])",
        changes(("set item", "$[0] = 5", "$[0] = 1"), ("append", "$.append(9)", "$.pop()"))
        + values(("float", "array.array('d', [1, 2, 3])")),
        attr="typecode",
    ),
    Kind(
        "numpy array",
        "import numpy as np",
        "np.array([1., 2., 3.])",
        changes(
            ("set item", "$[0] = 5", "$[0] = 1"),
            ("in place", "$ += 1", "$ -= 1"),
            ("shape", "$.shape = (3, 1)", "$.shape = (3,)"),
            ("read only", "$.flags.writeable = False"),
        )
        + values(
            ("float32", "np.array([1., 2., 3.], dtype=np.float32)"),
            ("longer", "np.ones(4)"),
            ("list", "[1., 2., 3.]"),
            ("view", "np.arange(6.)[::2]"),
        ),
        attr="dtype",
    ),
    Kind(
        "numpy scalar",
        "import numpy as np",
        "np.float64(2.5)",
        values(
            ("other", "np.float64(3.5)"),
            ("float32", "np.float32(2.5)"),
            ("int", "np.int64(2)"),
            ("bool", "np.bool_(True)"),
            ("python", "2.5"),
        ),
        attr="dtype",
    ),
    Kind(
        "numpy integer",
        "import numpy as np",
        "np.int64(2)",
        values(("other", "np.int64(3)"), ("int32", "np.int32(2)"), ("python", "2"), ("float", "np.float64(2)")),
        attr="dtype",
    ),
    Kind(
        "numpy dtype",
        "import numpy as np",
        "np.dtype('float32')",
        values(("other", "np.dtype('float64')"), ("class", "np.float32")),
        attr="itemsize",
    ),
    Kind(
        "numpy record",
        "import numpy as np",
        "np.array([(1, 2.)], dtype=[('k', int), ('z', float)])",
        changes(("set item", "$['k'][0] = 5", "$['k'][0] = 1")),
        key="'k'",
        attr="dtype",
    ),
    Kind(
        "list iterator", "", "iter([1, 2, 3])", changes(("advance", "next($)"), ("exhaust", "list($)")), attr="__next__"
    ),
    Kind(
        "generator",
        "def gen():\n    for i in LIMITS: yield i\nLIMITS = [1, 2, 3]\n",
        "gen()",
        changes(("advance", "next($)"), ("close", "$.close()"), ("below", "LIMITS[1] = 9", "LIMITS[1] = 2")),
        attr="gi_running",
    ),
    Kind(
        "dict iterator",
        "INNER = {'p': 1, 'q': 2}\n",
        "iter(INNER.items())",
        changes(
            ("advance", "next($)"),
            ("below", "INNER['q'] = 5", "INNER['q'] = 2"),
            ("grow", "INNER['new'] = 1", "del INNER['new']"),
        ),
        attr="__next__",
    ),
    Kind("count", "", "itertools.count(2, 3)", changes(("advance", "next($)")), endless=True, attr="__next__"),
    Kind("enumerate", "", "enumerate([5, 6, 7])", changes(("advance", "next($)")), attr="__next__"),
    Kind(
        "zip",
        "LEFT = [1, 2, 3]\n",
        "zip(LEFT, 'abc')",
        changes(("advance", "next($)"), ("below", "LEFT[1] = 8", "LEFT[1] = 2")),
        attr="__next__",
    ),
    Kind(
        "map",
        "LEFT = [1, 2, 3]\nFACTOR = 2\n",
        "map(lambda v: v * FACTOR, LEFT)",
        changes(("advance", "next($)"), ("below", "LEFT[1] = 8", "LEFT[1] = 2"))
        + bodies(("factor", "FACTOR = 5", "FACTOR = 2")),
        attr="__next__",
    ),
    Kind(
        "own iterator",
        "class It:\n    k = 2\n    def __init__(self): self.n = 0\n    def __iter__(self): return self\n"
        "    def __next__(self):\n        self.n += 1\n        if self.n > 3: raise StopIteration\n"
        "        return self.n * It.k\n",
        "It()",
        changes(("advance", "next($)"), ("state", "$.n = 1", "$.n = 0"))
        + bodies(("class attribute", "It.k = 3", "It.k = 2")),
        attr="n",
    ),
)
