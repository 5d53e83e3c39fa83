"""Which C functions of the standard library may run natively.  Data only; its types are in stdlib_types.

The modules are the ones that Python programs reach through `operator`, `re`, `collections`, `datetime` …; the names are
those of CPython 3.11 to 3.13.
"""

from __future__ import annotations

from .words import Functions

#: modules whose functions are denied as a whole, but for what the tables below allow: word -> modules
_DENIED = {
    "clock": "time",
    "random": "_random _uuid",
    "files": "_io io _socket _ssl select mmap fcntl termios _sqlite3",
    "process": "posix nt _signal signal _posixsubprocess resource pwd grp atexit faulthandler _multiprocessing",
    "threads": "_thread _queue _asyncio",
    "state": "_contextvars _locale _csv _warnings _decimal",
    "memory": "gc _tracemalloc _ctypes",
    "code": "_imp marshal _opcode _ast _symtable",
    "attributes": "_pickle",
}
DENIED_MODULES: dict[str, str] = {module: word for word, names in _DENIED.items() for module in names.split()}

#: functions declared pure that read a setting of the process: name of the setting -> functions.  Whoever captures a
#: call of one of these guards the setting.
STATE: dict[str, tuple[str, ...]] = {
    "abc registry": ("_abc._abc_instancecheck", "_abc._abc_subclasscheck", "_abc.get_cache_token"),
    "recursion limit": ("sys.getrecursionlimit",),
}

#: of the pure ones, those that call their arguments: a C callable given to them must be declared itself
CALLERS: tuple[str, ...] = (
    "_functools.cmp_to_key",
    "_functools.reduce",
    "_operator.call",
    "_bisect.bisect_left",
    "_bisect.bisect_right",
    "itertools.accumulate",
    "itertools.dropwhile",
    "itertools.filterfalse",
    "itertools.groupby",
    "itertools.starmap",
    "itertools.takewhile",
    "re.Pattern.sub",
    "re.Pattern.subn",
)

_NUMBERS = (
    Functions(
        "math",
        {
            "pure": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist erf erfc "
            "exp exp2 expm1 fabs factorial floor fma fmod frexp fsum gamma gcd hypot isclose isfinite isinf "
            "isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nextafter perm pow prod radians "
            "remainder sin sinh sqrt sumprod tan tanh trunc ulp"
        },
    ),
    Functions(
        "cmath",
        {
            "pure": "acos acosh asin asinh atan atanh cos cosh exp isclose isfinite isinf isnan log log10 phase "
            "polar rect sin sinh sqrt tan tanh"
        },
    ),
    Functions("_struct", {"pure": "calcsize iter_unpack pack pack_into unpack unpack_from"}),
)

_ALGORITHMS = (
    # `call` runs what it is given, and a callable given as an argument is judged by the call rule.
    Functions(
        "_operator",
        {
            "pure": "_compare_digest abs add and_ call concat contains countOf delitem eq floordiv ge getitem "
            "gt iadd iand iconcat ifloordiv ilshift imatmul imul index indexOf inv invert ipow "
            "irshift isub itruediv ixor le length_hint lshift lt matmul mul ne neg "
            "not_ or_ pos pow rshift setitem sub truediv truth xor",
            "address": "is_ is_not",
            "judged": "ior",  # of a dict
            "text": "imod mod",
        },
    ),  # of a string
    Functions("itertools", {"internals": "tee"}),  # looks for an attribute `__copy__`
    Functions("_functools", {"pure": "cmp_to_key reduce"}),
    Functions("_collections", {"internals": "_count_elements"}),  # looks for `get` on a mapping that is no dict
    Functions(
        "_heapq",
        {
            "pure": "_heapify_max _heappop_max _heapreplace_max heapify heapify_max heappop heappop_max heappush "
            "heappush_max heappushpop heappushpop_max heapreplace heapreplace_max"
        },
    ),
    Functions("_bisect", {"pure": "bisect_left bisect_right"}),
)

_TEXT = (
    Functions(
        "_sre", {"pure": "ascii_iscased ascii_tolower compile getcodesize template unicode_iscased unicode_tolower"}
    ),
    Functions("_string", {"pure": "formatter_field_name_split formatter_parser"}),
    Functions("_json", {"pure": "encode_basestring encode_basestring_ascii scanstring"}),
)

_INTERPRETER = (
    Functions(
        "sys",
        {
            "pure": "exit getdefaultencoding getfilesystemencodeerrors getfilesystemencoding getrecursionlimit intern "
            "is_finalizing _is_gil_enabled"
        },
    ),
    Functions("_abc", {"pure": "_abc_instancecheck _abc_subclasscheck get_cache_token"}),
    Functions("_typing", {"pure": "_idfunc"}),
    Functions("_thread", {"pure": "allocate_lock"}),
    # Which references exist, and what they still lead to, depends on who else is alive.
    Functions("_weakref", {"pure": "_remove_dead_weakref", "attributes": "proxy"}),
    Functions("posix", {"pure": "_path_normpath _path_splitroot _path_splitroot_ex fspath"}),
    # Of an object made inside: what the collector knows of it follows from what was done with it.
    Functions("gc", {"internals": "is_finalized is_tracked"}),
    Functions("array", {"pure": "_array_reconstructor"}),
)

FUNCTIONS: tuple[Functions, ...] = (*_NUMBERS, *_ALGORITHMS, *_TEXT, *_INTERPRETER)
