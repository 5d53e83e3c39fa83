"""Ways to read a fact of an object `o`: statements that leave what they found in `r`.

`{a}`, `{k}` and `{v}` are the kind's attribute, index and element.  Names in capitals are globals of the program's
world: OTHER is an equal object, FIRST the one that was there at first.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["READS", "Read", "WRITTEN"]


@dataclass(frozen=True)
class Read:
    """`tags` name what a kind may ask to avoid; `long` reads do not end over an endless object."""

    name: str
    text: str
    tags: tuple[str, ...] = ()
    long: bool = False


READS = (
    Read("dot", "r = o.{a}"),
    Read("dot twice", "r = (o.{a}, o.k, o.{a})"),
    Read("dot missing", "r = o.missing"),
    Read("getattr", "r = getattr(o, '{a}'), getattr(o, 'missing', 'none')"),
    Read("getattr by name", "r = [getattr(o, n, None) for n in ('{a}', 'k', 'base', 'missing')]"),
    Read("hasattr", "r = hasattr(o, '{a}'), hasattr(o, 'missing'), hasattr(o, 'k')"),
    Read("try dot", "try:\n    r = o.missing\nexcept AttributeError as e:\n    r = str(e)"),
    Read("vars", "r = {n: v for n, v in vars(o).items() if not n.startswith('_')}", ("whole", "class")),
    Read("dict", "r = o.__dict__.get('{a}'), 'missing' in o.__dict__, len(o.__dict__)", ("class",)),
    Read("dir", "r = [n for n in dir(o) if not n.startswith('_')]", ("whole", "class")),
    Read(
        "match class",
        "match o:\n    case object({a}=v, missing=w): r = v, w\n    case object({a}=v): r = v\n    case _: r = 'no'",
    ),
    Read(
        "match mapping",
        "match o:\n    case {{'p': v, **rest}}: r = v, rest\n    case {{}}: r = 'empty'\n    case _: r = 'no'",
        long=True,
    ),
    Read(
        "match sequence",
        "match o:\n    case [v, *rest]: r = v, rest\n    case []: r = 'empty'\n    case _: r = 'no'",
        ("walk",),
    ),
    Read(
        "match value",
        "match o:\n    case 2: r = 'two'\n    case 2.5: r = 'float'\n    case 'text': r = 'text'\n"
        "    case None: r = 'none'\n"
        "    case int() | str(): r = 'kind'\n    case _: r = 'no'",
    ),
    Read(
        "isinstance",
        "r = [isinstance(o, c) for c in (int, list, dict, str, torch.Tensor, type, T0, collections.abc.Mapping,\n"
        "     collections.abc.Sequence, collections.abc.Callable, collections.abc.Hashable)]",
    ),
    Read(
        "issubclass",
        "c = o if isinstance(o, type) else type(o)\nr = issubclass(c, int), issubclass(c, T0), issubclass(int, c)",
    ),
    Read("type is", "r = type(o) is T0, type(o).__name__, o.__class__ is T0"),
    Read(
        "mro",
        "c = o if isinstance(o, type) else type(o)\nr = [b.__name__ for b in c.__mro__], c.__bases__, c.__qualname__",
    ),
    Read("is", "r = o is FIRST, o is OTHER"),
    Read("iterate", "r = []\nfor v in o:\n    r.append(v)\n    if len(r) > 3: break", ("walk",)),
    Read("comprehension", "r = [v for v in itertools.islice(o, 4)]", ("walk",)),
    Read("len", "r = len(o)"),
    Read("in", "r = {v} in o, 77 not in o", ("walk",), long=True),
    Read("index", "r = o[{k}]"),
    Read(
        "index tried", "try:\n    r = o[{k}]\nexcept (KeyError, IndexError, TypeError) as e:\n    r = type(e), str(e)"
    ),
    Read("slice", "r = o[0:2], o[-1]"),
    Read("unpack", "a, *b = o\nr = a, b", ("walk",), long=True),
    Read("unpack two", "a, b = o\nr = b, a", ("walk",)),
    Read("star args", "r = (lambda *a, **k: (a, k))(*o)", ("walk",), long=True),
    Read("star keywords", "r = (lambda *a, **k: (a, k))(**o)"),
    Read("merge", "r = {{**o, 'last': 1}}, dict(o)", long=True),
    Read("f-string", "r = f'{{o}} {{o!r:>9}}'", ("repr",)),
    Read("repr", "r = repr(o), str(o)", ("repr",)),
    Read("percent", "r = '%s' % (o,) + '{{}}'.format(o)", ("repr",)),
    Read("equal", "r = o == OTHER, o != OTHER, o == FIRST"),
    Read("equal to value", "r = o == 2, o == 'text', 2.0 == o"),
    Read("less", "r = o < OTHER"),
    Read("hash", "r = hash(o) == hash(FIRST), {{FIRST: 1}}.get(o)"),
    Read("bool", "r = 'yes' if o else 'no', bool(o), not o"),
    Read("list of", "r = list(o), tuple(o)", ("walk",), long=True),
    Read("sorted", "r = sorted(o, key=str), len(o) > 1", ("walk",), long=True),
    Read("sum", "r = sum(o)", ("walk",), long=True),
    Read("max", "r = max(o, key=repr)", ("walk",), long=True),
    Read("map and zip", "r = list(zip(o, (1, 2, 3))), list(map(type, o))", ("walk",), long=True),
    Read("any and all", "r = any(o), all(o)", ("walk",), long=True),
    Read("enumerate", "r = [(i, v) for i, v in zip(range(3), enumerate(o))], list(reversed(o))", ("walk",)),
    Read("reduce", "r = functools.reduce(lambda a, b: (a, b), o)", ("walk",), long=True),
    Read("join", "r = ','.join(o)", ("walk",), long=True),
    Read("copy", "c = copy.copy(o)\nr = c, type(c) is type(o)", ("copy",)),
    Read("deepcopy", "c = copy.deepcopy(o)\nr = c, type(c) is type(o)", ("copy",)),
    Read("pickle", "r = len(pickle.dumps(o)) > 4", ("pickle",)),
    Read("attrgetter", "r = operator.attrgetter('{a}')(o)"),
    Read("itemgetter", "r = operator.itemgetter({k})(o)"),
    Read("operators", "r = operator.eq(o, OTHER), operator.truth(o), operator.is_(o, FIRST)"),
    Read("add", "r = o + o"),
    Read("multiply", "r = o * 2"),
    Read("union", "r = o | o"),
    Read("with", "with o as v:\n    r = v", ("with",)),
    Read("signature", "r = str(inspect.signature(o))"),
    Read("fields", "r = [f.name for f in dataclasses.fields(o)], dataclasses.is_dataclass(o)"),
    Read("asdict", "r = dataclasses.asdict(o)"),
    Read("json", "r = json.dumps(o)"),
    Read("call", "r = o()"),
    Read("call with tensor", "r = o(x)"),
    Read("callable", "r = callable(o)"),
    Read("next", "r = next(o), next(o, 'end')"),
    Read("iter", "r = next(iter(o), 'end')", ("walk",)),
    Read("method", "r = o.m()"),
    Read("static", "r = o.s(), o.c()"),
    Read("explicit special", "r = o.__len__(), type(o).__len__(o)"),
    Read("class of class", "r = type(o).{a}"),
    Read("class dict", "r = type(o).__dict__.get('{a}') is None, type(o).__dict__.get('missing')"),
    Read("static lookup", "r = inspect.getattr_static(o, '{a}', None)"),
    Read("object getattribute", "r = object.__getattribute__(o, '{a}')"),
    Read("super", "r = super(T0, o).{a}"),
    Read("local subclass", "class L(o if isinstance(o, type) else type(o)): pass\nr = L.{a}, L.__mro__[1].__name__"),
    Read("new instance", "r = (o if isinstance(o, type) else type(o))()"),
    Read("names", "r = o.__name__, o.__qualname__, o.__module__"),
    Read("doc", "r = o.__doc__"),
    Read("annotations", "r = o.__annotations__"),
    Read("defaults", "r = o.__defaults__, o.__kwdefaults__, o.__code__.co_name"),
    Read("times tensor", "r = x * o"),
    Read("torch call", "r = torch.add(x, o)"),
    Read("attribute times tensor", "r = x * o.{a}"),
    Read("item times tensor", "r = x * o[{k}]"),
    Read("as number", "r = int(o), float(o)"),
    Read("as index", "r = (7, 8, 9)[o]"),
    Read("get", "r = o.get({k}), o.get('absent', 4)"),
    Read("items", "r = list(o.items()), list(o.keys()), list(o.values())"),
    Read("closure", "f = lambda: o.{a}\nr = f()"),
    Read("held", "h = [o, {{'o': o}}, (o, o)]\nr = h, h[1]['o'].{a}"),
    Read("returned", "r = o"),
    Read("partial of", "r = functools.partial(o)()"),
    Read("deep", "r = o.deep['a'][1]['b'], len(o.items)"),
    Read("flatten", "r = torch.utils._pytree.tree_leaves(o)"),
)

#: reads around a write of captured code
WRITTEN = ("getattr by name", "index tried", "iterate", "repr", "vars", "returned")
