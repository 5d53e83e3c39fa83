"""Kinds: numbers, texts and what holds them, and subclasses of their classes."""

from __future__ import annotations

from .kind import Kind

__all__ = ["KINDS"]

NUMBER = (
    "x * v",
    "(x + 0, v)",
    "x.reshape(-1)[:int(v) + 1] if v == v and abs(v) < 9 else x - 1",
    "(x * 2, v == 1, f'{v}', bool(v))",
)
TEXT = ("x * len(v)", "(x + 0, v)", "(x + 1, v[:1], v.upper(), v == 'a')", "(x + 2, f'{v!r}', hash(v) == hash(v))")
SEQUENCE = ("x * len(v)", "(x + 0, v)", "(x + 1, v[0], [*v], v[:1])", "torch.cat([x * one for one in v])")
SET = ("x * len(v)", "(x + 0, v)", "(x + 1, 1 in v, 9 in v)", "torch.cat([x * one for one in v])")
OBJECT = ("(x + 0, v)", "(x + 1, repr(v), v == v)")
TWO_SURROGATES = "'\\ud83d\\ude00'"

_INTS = {"other": "10", "bool": "True", "float": "1.0", "huge": "(1 << 20000)"}
_FLOATS = {"other": "2.5", "zero": "-0.0", "int": "0", "nan": "float('nan')"}
_TEXTS = {"other": "'b'", "surrogate": "'\\ud800'", "bytes": "b'a'"}
_TUPLES = {"other": "(1, 3)", "bool": "(True, 2)", "float": "(1.0, 2)", "order": "(2, 1)", "longer": "(1, 2, 2)"}

PLAIN = (
    Kind("int", "@", "1", _INTS, NUMBER),
    Kind("huge int", "@", "(1 << 20000)", {"other": "(1 << 20000) + 1", "float": "2.0"}, ("(x + 0, v)", "x * (v % 7)")),
    Kind("float", "@", "0.0", _FLOATS, NUMBER),
    Kind("bool", "@", "True", {"other": "False", "int": "1", "float": "1.0"}, NUMBER),
    Kind(
        "complex", "@", "1+0j", {"other": "2+0j", "zero": "complex(1, -0.0)", "float": "1.0"}, ("x * v", "(x + 0, v)")
    ),
    Kind("str", "@", "'a'", _TEXTS, TEXT),
    Kind("pair of surrogates", "@", TWO_SURROGATES, {"other": "'\\U0001f600'"}, ("x * len(v)", "(x + 0, v)")),
    Kind(
        "bytes", "@", "b'a'", {"other": "b'b'", "str": "'a'"}, ("x * len(v)", "(x + 0, v)", "(x + 1, v[:1], v.upper())")
    ),
    Kind("None", "@", "None", {"other": "0", "ellipsis": "..."}, ("(x + 0, v)", "x * (v is None)")),
    Kind("tuple", "@", "(1, 2)", _TUPLES, SEQUENCE),
    Kind(
        "frozenset",
        "@",
        "frozenset([1, 9])",
        {"other": "frozenset([1, 8])", "order": "frozenset([9, 1])", "bool": "frozenset([True, 9])"},
        SET,
    ),
    Kind("set in the code", "@", "{1, 9}", {"other": "{1, 8}", "order": "{9, 1}"}, SET, hashable=False),
    Kind(
        "frozenset of texts",
        "@",
        "frozenset(['a', 'b'])",
        {"other": "frozenset(['a', 'c'])"},
        ("x * len(v)", "(x + 0, sorted(v))", "x * ('b' in v)"),
    ),
    Kind(
        "slice",
        "slice(@, 2)",
        "0",
        {"other": "1", "bool": "False", "none": "None"},
        ("x[v]", "(x + 0, v)"),
        hashable=False,
    ),
    Kind("range", "range(@, 5, 2)", "0", {"other": "1"}, ("x * len(v)", "(x + 0, v)", "(x + 1, [*v])")),
    Kind("equal range", "range(@)", "0, 5, 2", {"equal": "0, 6, 2"}, ("x * v.stop", "(x + 0, v)")),
)

OBJECTS = (
    Kind("dtype", "@", "torch.float64", {"other": "torch.float16"}, ("x.to(v)", "(x + 0, v)")),
    Kind(
        "size", "torch.Size(@)", "[1, 2]", {"other": "[2, 1]", "longer": "[1, 2, 1]"}, ("x.new_ones(v)", "(x + 0, v)")
    ),
    Kind("finfo", "torch.finfo(@)", "torch.float32", {"other": "torch.float16"}, ("x * v.bits", "x + v.max")),
    Kind(
        "numpy scalar",
        "numpy.@",
        "float64(1)",
        {"other": "float64(2)", "float32": "float32(1)", "int": "int64(1)"},
        ("x * v", "(x + 0, v)"),
    ),
    Kind("numpy dtype", "numpy.dtype(@)", "'f4'", {"other": "'f8'"}, OBJECT),
    Kind(
        "array",
        "numpy.array(@)",
        "[1.0, 2.0]",
        {"other": "[1.0, 3.0]", "int": "[1, 2]"},
        ("x + torch.from_numpy(v)", "x + v.shape[0]"),
        hashable=False,
    ),
    Kind(
        "Decimal",
        "decimal.Decimal(@)",
        "'1.0'",
        {"other": "'2'", "digits": "'1.00'", "sign": "'-1.0'"},
        ("x * float(v)", *OBJECT),
    ),
    Kind("Fraction", "fractions.Fraction(@)", "1, 2", {"other": "1, 3"}, ("x * float(v)", *OBJECT)),
    Kind("date", "datetime.date(@)", "2020, 1, 1", {"other": "2020, 1, 2"}, ("x * v.day", *OBJECT)),
    Kind(
        "datetime",
        "datetime.datetime(@)",
        "2020, 1, 1",
        {"other": "2020, 1, 2", "fold": "2020, 1, 1, fold=1", "zone": "2020, 1, 1, tzinfo=datetime.timezone.utc"},
        ("x * v.day", "x * (v.fold + 1)", *OBJECT),
    ),
    Kind("timedelta", "datetime.timedelta(@)", "1", {"other": "2", "micro": "1, 0, 1"}, ("x * v.days", *OBJECT)),
    Kind("timezone", "datetime.timezone(datetime.timedelta(hours=1), @)", "'a'", {"other": "'b'"}, OBJECT),
    Kind(
        "pattern",
        "re.compile(@)",
        "'a+'",
        {"other": "'b+'", "flags": "'a+', re.I"},
        ("x * (v.match('aa') is not None)", "(x + 0, v.pattern, v.flags)"),
    ),
    Kind(
        "partial",
        "functools.partial(operator.mul, @)",
        "2",
        {"other": "3", "float": "2.0"},
        ("v(x)", "(x + 0, v.args)"),
        hashable=False,
    ),
    Kind(
        "lambda",
        "(lambda a: a * @)",
        "2",
        {"other": "3", "float": "2.0", "name": "2 if a is None else a"},
        ("v(x)",),
        hashable=False,
    ),
    Kind(
        "lambda with a set",
        "(lambda: [one for one in {@}])",
        "1, 9",
        {"other": "1, 8", "order": "9, 1"},
        ("torch.cat([x * one for one in v()])",),
        hashable=False,
    ),
    Kind(
        "lambda with texts", "(lambda a: a in {@})", "'a', 'b'", {"other": "'a', 'c'"}, ("x * v('b')",), hashable=False
    ),
    Kind(
        "default of a lambda",
        "(lambda a=@: a)",
        "2",
        {"other": "3", "float": "2.0"},
        ("x * v()", "(x + 0, v())"),
        hashable=False,
    ),
    Kind("method", "@.__add__", "(1)", {"other": "(2)", "bool": "True"}, ("x * v(1)",), hashable=False),
    Kind("method of a text", "@.upper", "'a'", {"other": "'b'"}, ("(x + 0, v())",), hashable=False),
    Kind(
        "item getter",
        "operator.itemgetter(@)",
        "0",
        {"other": "1", "bool": "False"},
        ("x * v((2, 3))", "x * v({0: 2, 1: 3})"),
        hashable=False,
    ),
    Kind(
        "method caller",
        "operator.methodcaller('__add__', @)",
        "1",
        {"other": "2", "float": "1.0"},
        ("(x + 0, v(1))",),
        hashable=False,
    ),
    Kind("alias", "list[@]", "int", {"other": "float"}, ("(x + 0, v.__args__)", "(x + 1, v)")),
    Kind("starred alias", "@", "tuple[int]", {"starred": "next(iter(tuple[int]))"}, ("(x + 0, v)", "(x + 1, repr(v))")),
    Kind("union", "int | @", "str", {"other": "float"}, ("(x + 0, v.__args__)", "(x + 1, isinstance(1.0, v))")),
    Kind(
        "typing", "typing.Literal[@]", "1", {"other": "2", "bool": "True"}, ("(x + 0, v.__args__)", "(x + 1, repr(v))")
    ),
    Kind("bytearray", "bytearray(@)", "b'a'", {"other": "b'b'"}, ("x * v[0]", "(x + 0, bytes(v))"), hashable=False),
    Kind("exception", "ValueError(@)", "1", {"other": "2", "bool": "True"}, ("(x + 0, v.args)",)),
    Kind("path", "__import__('pathlib').PurePosixPath(@)", "'a'", {"other": "'b'"}, ("(x + 0, v.name)",)),
    Kind("counter", "collections.Counter(@)", "'ab'", {"other": "'abb'"}, ("x * v['b']",), hashable=False),
    Kind(
        "method of a member",
        "E.A.@",
        "bit_length",
        {"other": "conjugate"},
        ("x * v()",),
        "class E(enum.IntEnum): A = 2",
        hashable=False,
    ),
    Kind(
        "weak reference",
        "__import__('weakref').ref(T)",
        "2",
        {"other": "3"},
        ("x * v().held",),
        "class R: held = @\nT = R()",
        hashable=False,
    ),
)


def _over(base: str, payload: str, edits: dict[str, str], uses: tuple[str, ...], **more: str) -> Kind:
    """Instances of a subclass of a built-in class."""
    return Kind(
        f"subclass of {base}", "K(@)", payload, edits, (*uses, "(x + 5, type(v).__name__, v.extra)"),
        f"class K({base}):\n    extra = 2",
        {"extra": ("extra = 2", "extra = 3"),
         "method": ("extra = 2", "extra = 2; __str__ = __repr__ = lambda self: 'changed'")},
    )  # fmt: skip


SUBCLASSES = (
    _over("int", "1", {"other": "10", "huge": "1 << 20000"}, NUMBER),
    _over("float", "0.0", {"other": "2.5", "zero": "-0.0", "nan": "float('nan')"}, NUMBER),
    _over("complex", "1", {"other": "2", "zero": "complex(1, -0.0)"}, ("x * v", "(x + 0, v)")),
    _over("str", "'a'", {"other": "'b'", "surrogates": "'\\ud800'"}, TEXT),
    _over("bytes", "b'a'", {"other": "b'b'"}, ("x * len(v)", "(x + 0, v)", "(x + 1, v[:1])")),
    _over("tuple", "(1, 2)", {"other": "(1, 3)", "bool": "(True, 2)", "order": "(2, 1)"}, SEQUENCE),
    _over("frozenset", "[1, 9]", {"other": "[1, 8]", "order": "[9, 1]", "bool": "[True, 9]"}, SET),
    _over("decimal.Decimal", "'1.0'", {"other": "'2'"}, ("x * float(v)",)),
    _over("fractions.Fraction", "1, 2", {"other": "1, 3"}, ("x * float(v)",)),
    _over("datetime.date", "2020, 1, 1", {"other": "2020, 1, 2"}, ("x * v.day",)),
    _over(
        "datetime.datetime",
        "2020, 1, 1",
        {"other": "2020, 1, 2", "fold": "2020, 1, 1, fold=1"},
        ("x * v.day", "x * (v.fold + 1)"),
    ),
    _over("datetime.timedelta", "1", {"other": "2"}, ("x * v.days",)),
    _over("torch.Size", "[1, 2]", {"other": "[2, 1]"}, ("x.new_ones(v)",)),
    _over("numpy.float64", "1.0", {"other": "2.0"}, ("x * v", "x * float(v)")),
    _over("functools.partial", "operator.mul, 2", {"other": "operator.mul, 3"}, ("v(x)",)),
    _over("property", "lambda self: 1", {"other": "lambda self: 2"}, ("(x + 0, v.fget(1))",)),
)

#: a named tuple, a data class: values of the program's own classes
RECORDS = (
    Kind(
        "named tuple",
        "K(@, 2)",
        "1",
        {"other": "3", "bool": "True"},
        (*SEQUENCE, "x * v.a", "(x + 7, v._fields)"),
        "K = collections.namedtuple('K', 'a b')",
        {"fields": ("'a b'", "'b a'"), "renamed": ("namedtuple('K'", "namedtuple('L'")},
    ),
    Kind(
        "typed named tuple",
        "K(@)",
        "1",
        {"other": "3", "bool": "True"},
        (*SEQUENCE, "x * v.a", "x * v.b"),
        "class K(typing.NamedTuple):\n    a: int\n    b: int = 2",
        {"default": ("b: int = 2", "b: int = 5")},
    ),
    Kind(
        "frozen data class",
        "K(@)",
        "1",
        {"other": "3", "bool": "True"},
        ("x * v.a", "(x + 0, repr(v), v == v)", "x * hash(v)", "x * v.b"),
        "@dataclasses.dataclass(frozen=True)\nclass K:\n    a: int\n    b: int = 2",
        {"default": ("b: int = 2", "b: int = 5"), "repr": ("frozen=True)", "frozen=True, repr=False)")},
    ),
    Kind(
        "data class with slots",
        "K(@)",
        "1",
        {"other": "3", "bool": "True"},
        ("x * v.a", "(x + 0, repr(v), v == v)", "x * v.b"),
        "@dataclasses.dataclass(frozen=True, slots=True)\nclass K:\n    a: int\n    b: int = 2",
        {"default": ("b: int = 2", "b: int = 5"), "swapped": ("a: int\n    b: int = 2", "b: int\n    a: int = 2")},
    ),
    Kind(
        "class",
        "K",
        "1",
        {"other": "3", "bool": "True"},
        ("x * v.a", "(x + 0, v.__name__, v.__doc__)", "x * v().a", "(x + 3, [*vars(v)][-2:], v.__mro__[1].__name__)"),
        "class B: pass\nclass K(object):\n    'words'\n    a = @; b = 2",
        {
            "doc": ("'words'", "'other'"),
            "order": ("a = @; b = 2", "b = 2; a = @"),
            "base": ("(object)", "(B)"),
            "slots": ("b = 2", "b = 2; __slots__ = ()"),
        },
    ),
)

KINDS = (*PLAIN, *OBJECTS, *SUBCLASSES, *RECORDS)
