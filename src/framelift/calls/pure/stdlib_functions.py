"""Which C functions of the standard library may run natively.  Data only; its types are in stdlib_types.

The modules are the ones that Python programs reach through `operator`, `re`, `collections`, `datetime` …; the names are
those of CPython 3.11 to 3.13.
"""

from __future__ import annotations

from .words import Functions

#: modules denied as a whole, but for what the tables below allow: module -> word
DENIED_MODULES: dict[str, str] = {
    **dict.fromkeys(("time",), "clock"),
    **dict.fromkeys(("_random", "_uuid"), "random"),
    **dict.fromkeys(
        ("_io", "io", "_socket", "_ssl", "select", "mmap", "fcntl", "termios", "_sqlite3", "_dbm", "_gdbm"), "files"
    ),
    **dict.fromkeys(
        (
            "posix",
            "nt",
            "_signal",
            "signal",
            "_posixsubprocess",
            "resource",
            "pwd",
            "grp",
            "syslog",
            "atexit",
            "faulthandler",
            "_posixshmem",
            "_multiprocessing",
        ),
        "process",
    ),
    **dict.fromkeys(("_thread", "_queue", "_asyncio"), "threads"),
    **dict.fromkeys(("_contextvars", "_locale", "_csv", "_warnings"), "state"),
    **dict.fromkeys(("gc", "_tracemalloc", "_ctypes"), "memory"),
    **dict.fromkeys(("_imp", "marshal", "_opcode", "_ast", "_symtable"), "code"),
    **dict.fromkeys(("_pickle",), "attributes"),
    **dict.fromkeys(("readline", "_curses", "msvcrt"), "terminal"),
}

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
    Functions("_statistics", {"pure": "_normal_dist_inv_cdf"}),
    Functions("time", {"judged": "asctime gmtime"}),
    Functions(
        "_stat",
        {
            "pure": "S_IFMT S_IMODE S_ISBLK S_ISCHR S_ISDIR S_ISDOOR S_ISFIFO S_ISLNK S_ISPORT S_ISREG S_ISSOCK "
            "S_ISWHT filemode"
        },
    ),
    Functions("_decimal", {"state": "getcontext localcontext setcontext"}),
    Functions("_struct", {"pure": "calcsize iter_unpack pack pack_into unpack unpack_from", "state": "_clearcache"}),
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
        {"pure": "_heapify_max _heappop_max _heapreplace_max heapify heappop heappush heappushpop heapreplace"},
    ),
    Functions("_bisect", {"pure": "bisect_left bisect_right", "judged": "insort_left insort_right"}),
)

_TEXT = (
    Functions(
        "_sre", {"pure": "ascii_iscased ascii_tolower compile getcodesize template unicode_iscased unicode_tolower"}
    ),
    Functions("_string", {"pure": "formatter_field_name_split formatter_parser"}),
    Functions(
        "unicodedata",
        {
            "pure": "bidirectional category combining decimal decomposition digit east_asian_width "
            "is_normalized lookup mirrored name normalize numeric"
        },
    ),
    Functions("_json", {"pure": "encode_basestring encode_basestring_ascii scanstring"}),
    Functions(
        "_codecs",
        {
            "pure": "ascii_decode ascii_encode charmap_build charmap_decode charmap_encode escape_decode escape_encode "
            "latin_1_decode latin_1_encode raw_unicode_escape_decode raw_unicode_escape_encode readbuffer_encode "
            "unicode_escape_decode unicode_escape_encode utf_16_be_decode utf_16_be_encode utf_16_decode utf_16_encode "
            "utf_16_ex_decode utf_16_le_decode utf_16_le_encode utf_32_be_decode utf_32_be_encode utf_32_decode "
            "utf_32_encode utf_32_ex_decode utf_32_le_decode utf_32_le_encode utf_7_decode utf_7_encode utf_8_decode "
            "utf_8_encode",
            "state": (
                "decode encode _forget_codec _unregister_error lookup lookup_error register register_error unregister"
            ),
        },
    ),
    Functions(
        "binascii",
        {"pure": "a2b_base64 a2b_hex a2b_qp a2b_uu b2a_base64 b2a_hex b2a_qp b2a_uu crc32 crc_hqx hexlify unhexlify"},
    ),
    Functions("zlib", {"pure": "adler32 compress crc32 decompress", "unknown": "compressobj decompressobj"}),
    Functions(
        "_hashlib",
        {
            "pure": "compare_digest get_fips_mode hmac_digest hmac_new new openssl_md5 openssl_sha1 "
            "openssl_sha224 openssl_sha256 openssl_sha384 openssl_sha3_224 openssl_sha3_256 "
            "openssl_sha3_384 openssl_sha3_512 openssl_sha512 openssl_shake_128 openssl_shake_256 "
            "pbkdf2_hmac scrypt"
        },
    ),
)

_INTERPRETER = (
    Functions(
        "sys",
        {
            "pure": "exit getdefaultencoding getfilesystemencodeerrors getfilesystemencoding "
            "getrecursionlimit intern is_finalizing "
            "_is_gil_enabled",
            "address": "_is_interned",
            "code": "_baserepl activate_stack_trampoline deactivate_stack_trampoline is_stack_trampoline_active",
            "frames": "_current_exceptions _current_frames _getframe _getframemodulename breakpointhook "
            "__breakpointhook__ "
            "call_tracing exc_info exception",
            "memory": "_clear_internal_caches _clear_type_cache _debugmallocstats _getquickenedcount "
            "getallocatedblocks getrefcount getsizeof "
            "getunicodeinternedsize",
            "process": "_get_cpu_count_config getdlopenflags setdlopenflags addaudithook audit",
            "state": "_setprofileallthreads _settraceallthreads get_asyncgen_hooks get_coroutine_origin_tracking_depth "
            "get_int_max_str_digits getprofile getswitchinterval gettrace set_asyncgen_hooks "
            "set_coroutine_origin_tracking_depth set_int_max_str_digits setprofile setrecursionlimit setswitchinterval "
            "settrace",
            "terminal": "__displayhook__ __excepthook__ __unraisablehook__ displayhook excepthook unraisablehook",
        },
    ),
    Functions(
        "_abc",
        {
            "pure": "_abc_instancecheck _abc_subclasscheck get_cache_token",
            "class": "_abc_init _abc_register",
            "state": "_get_dump _reset_caches _reset_registry",
        },
    ),
    Functions("_typing", {"pure": "_idfunc"}),
    Functions("_thread", {"pure": "allocate_lock"}),
    # Which references exist, and what they still lead to, depends on who else is alive.
    Functions(
        "_weakref", {"pure": "_remove_dead_weakref", "state": "getweakrefcount getweakrefs", "attributes": "proxy"}
    ),
    Functions(
        "_warnings",
        {
            "terminal": "warn warn_explicit",
            "state": "_filters_mutated _filters_mutated_lock_held _acquire_lock _release_lock",
        },
    ),
    Functions("posix", {"pure": "_path_normpath _path_splitroot _path_splitroot_ex fspath"}),
    *(
        Functions(name, {"pure": "md5 sha1 sha224 sha256 sha384 sha512"})
        for name in ("_md5", "_sha1", "_sha256", "_sha512", "_sha2")
    ),
    # Of an object made inside: what the collector knows of it follows from what was done with it.
    Functions("gc", {"internals": "is_finalized is_tracked"}),
    Functions("array", {"pure": "_array_reconstructor"}),
)

FUNCTIONS: tuple[Functions, ...] = (*_NUMBERS, *_ALGORITHMS, *_TEXT, *_INTERPRETER)
