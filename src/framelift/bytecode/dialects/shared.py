"""Rules that read the same in several CPython versions.  A version's file says which of them it takes.

All of them rest on one fact: a call whose first slot is not NULL calls that slot with everything above it.  So
[probe][operand] with a count of 0 calls probe(operand), and putting the `call` probe where the compiler put NULL turns
every call into call(callable, *args) without touching the call itself.
"""

from __future__ import annotations

from ..dialect import EX_ARGS, EX_KWARGS, RuleTable
from ..encode import named
from ..rule_writer import Writer

SHARED = RuleTable()

SWAP2 = named("SWAP", 2)
COPY1 = named("COPY", 1)
COPY2 = named("COPY", 2)
POP = named("POP_TOP")
#: BELOW[n]: the top of the stack goes under the n slots beneath it, whose order stays
BELOW = {n: b"".join(named("SWAP", k) for k in range(n + 1, 1, -1)) for n in range(1, 5)}


def method(w: Writer, load: bytes) -> bytes:
    """[operand] -> [call][what `load` makes of the operand]: the two slots of a method about to be called."""
    return w.probe["call"] + SWAP2 + load


def ex_names(arg: int) -> tuple[str, ...]:
    """The keyword names under which a star call hands over its operands."""
    return (EX_ARGS, EX_KWARGS) if arg & 1 else (EX_ARGS,)


@SHARED("PUSH_NULL", depth=1)
def push_null(w: Writer, arg: int) -> bytes:
    return w.probe["call"]


@SHARED("LOAD_GLOBAL", depth=3)
def load_global(w: Writer, arg: int) -> bytes:
    load = w.probe["load_global"] + w.name[arg >> 1] + w.calls[0]
    return w.probe["call"] + load if arg & 1 else load


@SHARED("STORE_GLOBAL", depth=2)
def store_global(w: Writer, arg: int) -> bytes:
    return w.probe["store_global"] + SWAP2 + w.name[arg] + w.calls[1] + POP


@SHARED("DELETE_GLOBAL", depth=2)
def delete_global(w: Writer, arg: int) -> bytes:
    return w.probe["delete_global"] + w.name[arg] + w.calls[0] + POP


@SHARED("STORE_ATTR", depth=2)
def store_attr(w: Writer, arg: int) -> bytes:
    return w.probe["store_attr"] + BELOW[2] + w.name[arg] + w.calls[2] + POP


@SHARED("DELETE_ATTR", depth=2)
def delete_attr(w: Writer, arg: int) -> bytes:
    return w.probe["delete_attr"] + SWAP2 + w.name[arg] + w.calls[1] + POP


@SHARED("LOAD_DEREF", depth=3, where="free")
def load_deref(w: Writer, arg: int) -> bytes | None:
    if arg < w.first_outer:
        return None
    return w.probe["load_deref"] + w.cell(arg) + w.variable(arg) + w.calls[1]


@SHARED("STORE_DEREF", depth=2, where="free")
def store_deref(w: Writer, arg: int) -> bytes | None:
    if arg < w.first_outer:
        return None
    return w.probe["store_deref"] + SWAP2 + w.cell(arg) + w.calls[1] + POP


@SHARED("DELETE_DEREF", depth=3, where="free")
def delete_deref(w: Writer, arg: int) -> bytes | None:
    if arg < w.first_outer:
        return None
    return w.probe["delete_deref"] + w.cell(arg) + w.variable(arg) + w.calls[1] + POP


@SHARED("IMPORT_NAME", depth=2)
def import_name(w: Writer, arg: int) -> bytes:
    return w.probe["import_name"] + BELOW[2] + w.name[arg] + w.calls[2]


@SHARED("IMPORT_FROM", depth=3)
def import_from(w: Writer, arg: int) -> bytes:
    return w.probe["import_from"] + COPY2 + w.name[arg] + w.calls[1]


@SHARED("MATCH_CLASS", depth=2)
def match_class(w: Writer, arg: int) -> bytes:
    return w.probe["match_class"] + BELOW[3] + w.const[arg] + w.calls[3]


def patterned(w: Writer) -> bytes:
    """[subject] -> [subject whose kind is a fact]."""
    return w.probe["match_kind"] + SWAP2 + w.calls[0]


@SHARED("MATCH_SEQUENCE", depth=1)
def match_sequence(w: Writer, arg: int) -> bytes:
    return patterned(w) + named("MATCH_SEQUENCE")


@SHARED("MATCH_MAPPING", depth=1)
def match_mapping(w: Writer, arg: int) -> bytes:
    return patterned(w) + named("MATCH_MAPPING")


@SHARED("BEFORE_WITH", depth=1)
def before_with(w: Writer, arg: int) -> bytes:
    return w.probe["before_with"] + SWAP2 + w.calls[0] + named("BEFORE_WITH")


@SHARED("BEFORE_ASYNC_WITH", depth=1)
def before_async_with(w: Writer, arg: int) -> bytes:
    return w.probe["before_with"] + SWAP2 + w.calls[0] + named("BEFORE_ASYNC_WITH")


@SHARED("MAKE_FUNCTION", depth=1)
def make_function(w: Writer, arg: int) -> bytes:
    return named("MAKE_FUNCTION", arg) + w.probe["make_function"] + SWAP2 + w.calls[0]


@SHARED("LOAD_ATTR", depth=3)
def load_attr(w: Writer, arg: int) -> bytes:
    # Since 3.12 the low bit asks for the two slots of a method call.
    load = w.probe["load_attr"] + SWAP2 + w.name[arg >> 1] + w.calls[1]
    return method(w, load) if arg & 1 else load


def test_attr(w: Writer, arg: int) -> bytes:
    """LOAD_ATTR, where the next instruction asks the value for its truth alone."""
    return w.probe["test_attr"] + SWAP2 + w.name[arg >> 1] + w.calls[1]


@SHARED("LOAD_SUPER_ATTR", depth=4)
def load_super_attr(w: Writer, arg: int) -> bytes:
    load = w.probe["load_super_attr"] + BELOW[3] + w.name[arg >> 2] + w.const[arg & 3] + w.calls[4]
    return w.probe["call"] + BELOW[3] + load if arg & 1 else load


def spread(w: Writer) -> bytes:
    """[mapping] -> [mapping as it may be merged]."""
    return w.probe["spread"] + SWAP2 + w.calls[0]


@SHARED("DICT_UPDATE", depth=1)
def dict_update(w: Writer, arg: int) -> bytes:
    return spread(w) + named("DICT_UPDATE", arg)


@SHARED("DICT_MERGE", depth=1)
def dict_merge(w: Writer, arg: int) -> bytes:
    return spread(w) + named("DICT_MERGE", arg)


def iterate(w: Writer) -> bytes:
    """[iterable] -> [iterable whose order is a fact]."""
    return w.probe["iterate"] + SWAP2 + w.calls[0]


@SHARED("GET_ITER", depth=1)
def get_iter(w: Writer, arg: int) -> bytes:
    return iterate(w) + named("GET_ITER")


@SHARED("LIST_EXTEND", depth=1)
def list_extend(w: Writer, arg: int) -> bytes:
    return iterate(w) + named("LIST_EXTEND", arg)


def operands(w: Writer) -> bytes:
    """[left, right] -> the same, as a text may be made of them."""
    return COPY2 + COPY2 + w.probe["formatted"] + BELOW[2] + w.calls[1] + SWAP2 + POP


def checked(w: Writer, formatting: bytes) -> bytes:
    """The formatting, and a look at the text it gave."""
    return formatting + w.probe["check_text"] + SWAP2 + w.calls[0]


@SHARED("FORMAT_VALUE", depth=3)
def format_value(w: Writer, arg: int) -> bytes:
    converts_and_formats = arg & 3 and arg & 4
    return (operands(w) if converts_and_formats else b"") + checked(w, named("FORMAT_VALUE", arg))


def _makes_text(name: str) -> None:
    SHARED(name, depth=1)(lambda w, arg: checked(w, named(name, arg)))


for _opcode in ("CONVERT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BUILD_STRING"):
    _makes_text(_opcode)


def remainder(w: Writer, arg: int, caches: int) -> bytes | None:
    """BINARY_OP: of the operators only `%` makes texts of other objects."""
    if arg not in _REMAINDER:
        return None
    return operands(w) + checked(w, named("BINARY_OP", arg, caches))


@SHARED("BINARY_OP", depth=3)
def binary_op(w: Writer, arg: int) -> bytes | None:
    return remainder(w, arg, caches=1)


_REMAINDER = (6, 19)  # plain and in place, in all versions


@SHARED("PUSH_EXC_INFO", depth=3)
def push_exc_info(w: Writer, arg: int) -> bytes:
    # A handler begins.  What it handles may have come from outside: from a signal handler, or from another thread.
    return named("PUSH_EXC_INFO") + COPY1 + w.probe["caught"] + SWAP2 + w.calls[0] + POP


@SHARED("IS_OP", depth=1)
def is_op(w: Writer, arg: int) -> bytes:
    # Equal external numbers and texts may be one object in this call and two in the next.
    asked = w.probe["same_object"] + BELOW[2] + w.calls[1]
    return asked + named("UNARY_NOT") if arg else asked


@SHARED("CONTAINS_OP", depth=1)
def contains_op(w: Writer, arg: int) -> bytes:
    # A table would take a number that changes for a constant, by its hash.
    asked = w.probe["contains"] + BELOW[2] + w.calls[1]
    return asked + named("UNARY_NOT") if arg else asked


@SHARED("CALL_FUNCTION_EX", depth=0)
def call_function_ex(w: Writer, arg: int) -> bytes:
    names = ex_names(arg)
    return named("KW_NAMES", w.index(names)) + w.calls[len(names)]


@SHARED("CALL", depth=1, where="marked")
def call_decorator(w: Writer, arg: int) -> bytes:
    return w.probe["call"] + BELOW[2] + w.calls[1]


#: rules that no version does without
EVERYWHERE = (
    "LOAD_GLOBAL STORE_GLOBAL DELETE_GLOBAL STORE_ATTR DELETE_ATTR LOAD_DEREF STORE_DEREF "
    "DELETE_DEREF IMPORT_NAME IMPORT_FROM PUSH_EXC_INFO MATCH_CLASS MATCH_SEQUENCE MATCH_MAPPING BEFORE_WITH "
    "BEFORE_ASYNC_WITH DICT_UPDATE BUILD_STRING GET_ITER LIST_EXTEND BINARY_OP IS_OP CONTAINS_OP"
).split()
