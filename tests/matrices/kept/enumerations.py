"""Kinds: members of enumerations, with and without a data type."""

from __future__ import annotations

from .kind import Kind
from .numbers_texts import NUMBER, SEQUENCE, SET, TEXT

__all__ = ["KINDS"]

#: what any member is asked
MEMBER = ("(x + 0, v)", "(x + 1, v.name, v.value)",
          "(x + 2, [one.name for one in type(v)], [one.value for one in type(v)])",
          "(x + 3, type(v)['A'] is v, [*type(v).__members__], str(v), f'{v}', repr(v))")  # fmt: skip


def _members(bases: str, payload: str, more: str, edits: dict[str, str], uses: tuple[str, ...] = ()) -> Kind:
    """A member A of a class of enumerations whose other members, before and after, are in `more`."""
    return Kind(
        f"member of ({bases})", "K.A", payload, edits, (*MEMBER, *uses),
        f"class K({bases}):\n    Z = {more}; A = @; C = {more}",
        {"renamed": ("    Z", "    Y"), "order": (f"Z = {more}; A = @", f"A = @; Z = {more}"),
         "alias": (f"C = {more}", "C = A"),
         "method": (f"C = {more}", "__str__ = lambda self: 'changed'")},
    )  # fmt: skip


KINDS = (
    _members("enum.Enum", "1", "7", {"other": "10", "bool": "True", "float": "1.0", "text": "'1'"}, ("x * v.value",)),
    _members("enum.IntEnum", "1", "7", {"other": "10", "huge": "1 << 20000"}, NUMBER),
    _members("int, enum.Enum", "1", "7", {"other": "10"}, NUMBER),
    _members("float, enum.Enum", "0.0", "7.0", {"other": "2.5", "zero": "-0.0"}, NUMBER),
    _members("complex, enum.Enum", "1", "7", {"other": "2", "zero": "complex(1, -0.0)"}, ("x * v",)),
    _members("str, enum.Enum", "'a'", "'z'", {"other": "'b'", "surrogates": "'\\ud800'"}, TEXT),
    _members("enum.StrEnum", "'a'", "'z'", {"other": "'b'"}, TEXT),
    _members("bytes, enum.Enum", "b'a'", "b'z'", {"other": "b'b'"}, ("x * len(v)", "(x + 1, v[:1])")),
    _members(
        "tuple, enum.Enum", "(1, 2)", "(7, 7)", {"other": "(1, 3)", "bool": "(True, 2)", "order": "(2, 1)"}, SEQUENCE
    ),
    _members("frozenset, enum.Enum", "[1, 9]", "[7]", {"other": "[1, 8]", "order": "[9, 1]", "bool": "[True, 9]"}, SET),
    _members("enum.Flag", "1", "8", {"other": "2", "both": "3"}, ("x * (K.A in v)", "(x + 4, v | K.Z, ~v)")),
    _members(
        "enum.IntFlag", "1", "8", {"other": "2", "both": "3"}, ("x * v", "(x + 4, v | K.Z, v & 3)", "x * (v | 16)")
    ),
    _members("decimal.Decimal, enum.Enum", "'1.0'", "'7'", {"other": "'2'", "digits": "'1.00'"}, ("x * float(v)",)),
    _members("fractions.Fraction, enum.Enum", "(1, 2)", "7", {"other": "(1, 3)"}, ("x * float(v)",)),
    _members("datetime.date, enum.Enum", "(2020, 1, 1)", "(2021, 1, 1)", {"other": "(2020, 1, 2)"}, ("x * v.day",)),
    _members("datetime.timedelta, enum.Enum", "1", "7", {"other": "2"}, ("x * v.days",)),
    _members("torch.Size, enum.Enum", "([1, 2],)", "([7],)", {"other": "([2, 1],)"}, ("x.new_ones(v)",)),
    _members("list, enum.Enum", "[1, 2]", "[7]", {"other": "[1, 3]", "bool": "[True, 2]"}, SEQUENCE),
    _members(
        "dict, enum.Enum",
        "[(1, 2)]",
        "[(7, 7)]",
        {"other": "[(1, 3)]", "bool": "[(True, 2)]"},
        ("x * v[1]", "(x + 4, [*v])"),
    ),
    _members("set, enum.Enum", "[1, 9]", "[7]", {"other": "[1, 8]"}, SET),
    _members("bytearray, enum.Enum", "b'a'", "b'z'", {"other": "b'b'"}, ("x * v[0]",)),
    _members("collections.deque, enum.Enum", "[1, 2]", "[7]", {"other": "[1, 3]"}, ("x * v[1]",)),
    _members("numpy.float64, enum.Enum", "1.0", "7.0", {"other": "2.0"}, ("x * v", "x * float(v)")),
    Kind(
        "member of a subclass of int",
        "K.A",
        "1",
        {"other": "2"},
        (*MEMBER, *NUMBER),
        "class N(int): pass\nclass K(N, enum.Enum): Z = 7; A = @",
    ),
    Kind(
        "member of a named tuple",
        "K.A",
        "1",
        {"other": "3", "bool": "True"},
        (*MEMBER, *SEQUENCE, "x * v.a"),
        "N = collections.namedtuple('N', 'a b')\nclass K(N, enum.Enum): Z = 7, 7; A = @, 2",
    ),
    Kind(
        "member of a data class",
        "K.A",
        "1",
        {"other": "3", "bool": "True"},
        (*MEMBER, "x * v.a"),
        "@dataclasses.dataclass(frozen=True)\nclass N:\n    a: int; b: int\nclass K(N, enum.Enum): Z = 7, 7; A = @, 2",
    ),
    Kind(
        "member with a value of its own",
        "K.A",
        "1",
        {"other": "2"},
        (*MEMBER, "x * v", "x * v.value", "x * v.label"),
        "class K(int, enum.Enum):\n    def __new__(cls, number):\n        made = int.__new__(cls, number)\n"
        "        made._value_ = 'value of a member'\n"
        "        made.label = 5\n        return made\n    A = @",
        {
            "value": ("value of a member", "other of a member"),
            "label": ("label = 5", "label = 6"),
            "content": ("(cls, number)", "(cls, number + 1)"),
        },
    ),
    Kind(
        "member by auto",
        "K.A",
        "enum.auto()",
        {"other": "7"},
        (*MEMBER, *NUMBER),
        "class K(enum.IntEnum):\n    Z = 3; A = @",
        {"before": ("Z = 3", "Z = 4")},
    ),
    Kind(
        "member of a member",
        "K.A",
        "1",
        {"other": "2"},
        (*MEMBER, "x * v.value"),
        "class N(enum.IntEnum): P = @\nclass K(enum.Enum): A = N.P",
    ),
    Kind(
        "member by the functional API",
        "K.A",
        "'Z A'",
        {"order": "'A Z'", "more": "'Z Y A'"},
        (*MEMBER, *NUMBER),
        "K = enum.IntEnum('K', @)",
    ),
    Kind(
        "combined flags",
        "K.A | K.B",
        "1",
        {"other": "4"},
        ("(x + 0, v)", "x * v", "(x + 1, v.name, v.value)"),
        "class K(enum.IntFlag): A = @; B = 2",
    ),
    Kind(
        "boundary of flags",
        "K.A",
        "1",
        {"other": "2"},
        ("(x + 0, v)", "(x + 1, ~v)"),
        "class K(enum.IntFlag, boundary=enum.KEEP):\n    A = @; B = 8",
        {"boundary": ("enum.KEEP", "enum.EJECT")},
    ),
)
