"""Kinds of external objects: numbers and other immutable values, references, state of the process and of libraries."""

from __future__ import annotations

from .kind import Kind, bodies, changes
from .kinds_containers import values

__all__ = ["KINDS"]

NOW = "import datetime\n"
#: objects whose texts, and whose places in a table, do not depend on where they lie in memory
WEAK = """
import weakref
class C:
    k = 2
    made = 0
    def __init__(self):
        C.made += 1
        self.number = C.made
    def __hash__(self): return self.number
    def __repr__(self): return f'C{self.number}'
KEEP, OTHERS = C(), C()
"""

KINDS = (
    Kind(
        "int",
        "",
        "2",
        values(
            ("other", "3"),
            ("float", "2.0"),
            ("bool", "True"),
            ("large", "2 ** 70"),
            ("negative", "-2"),
            ("none", "None"),
            ("subclass", "type('I', (int,), {'k': 1})(2)"),
        ),
        attr="real",
    ),
    Kind("bool", "", "True", values(("other", "False"), ("int", "1"), ("float", "1.0")), attr="real"),
    Kind(
        "float",
        "",
        "2.5",
        values(
            ("other", "3.5"),
            ("zero", "0.0"),
            ("negative zero", "-0.0"),
            ("nan", "float('nan')"),
            ("inf", "float('inf')"),
            ("int", "2"),
        ),
        attr="real",
    ),
    Kind("complex", "", "2 + 1j", values(("other", "3 + 1j"), ("negative zero", "complex(2, -0.0)")), attr="imag"),
    Kind(
        "int subclass",
        "class S(int):\n    k = 2\n    def m(self): return S.k\n    def __add__(self, o): return S.k\n"
        "    def __repr__(self): return f'S{S.k}'\n",
        "S(2)",
        bodies(
            ("class attribute", "S.k = 5", "S.k = 2"),
            ("patch", "OLD = S.__add__; S.__add__ = lambda s, o: 9", "S.__add__ = OLD"),
            ("plain", "PUT(2)"),
        )
        + changes(("attribute", "$.missing = 3", "del $.missing")),
    ),
    Kind(
        "float subclass",
        "class S(float):\n    k = 2\n    def __mul__(self, o): return S.k\n",
        "S(2.5)",
        bodies(("class attribute", "S.k = 5", "S.k = 2"), ("plain", "PUT(2.5)")),
    ),
    Kind("none", "", "None", values(("number", "0"), ("text", "''"), ("ellipsis", "...")), attr="__class__"),
    Kind(
        "decimal",
        "import decimal",
        "decimal.Decimal('2.50')",
        values(("other", "decimal.Decimal('3')"), ("equal", "decimal.Decimal('2.5')"))
        + bodies(("context", "decimal.getcontext().prec = 2", "decimal.getcontext().prec = 28")),
        attr="real",
    ),
    Kind(
        "fraction",
        "import fractions",
        "fractions.Fraction(2, 3)",
        values(("other", "fractions.Fraction(1, 3)"), ("int", "2")),
        attr="numerator",
    ),
    Kind(
        "datetime",
        NOW,
        "datetime.datetime(2020, 1, 2, 3, 4)",
        values(
            ("other", "datetime.datetime(2021, 1, 2)"),
            ("date", "datetime.date(2020, 1, 2)"),
            ("zone", "datetime.datetime(2020, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)"),
        ),
        attr="year",
    ),
    Kind(
        "timedelta",
        NOW,
        "datetime.timedelta(seconds=5)",
        values(("other", "datetime.timedelta(seconds=6)"), ("zero", "datetime.timedelta(0)")),
        attr="seconds",
    ),
    Kind("uuid", "import uuid", "uuid.UUID(int=5)", values(("other", "uuid.UUID(int=6)")), attr="int"),
    Kind(
        "path",
        "import pathlib",
        "pathlib.PurePosixPath('/a/b.txt')",
        values(("other", "pathlib.PurePosixPath('/a/c.py')"), ("text", "'/a/b.txt'")),
        attr="name",
    ),
    Kind(
        "pattern",
        "import re",
        "re.compile('(t)e')",
        values(("other", "re.compile('x')"), ("flags", "re.compile('(T)E', re.I)")),
        attr="pattern",
    ),
    Kind(
        "regex match",
        "import re",
        "re.match('(t)e(x)', 'text')",
        values(("other", "re.match('(t)', 'tt')"), ("none", "None")),
        attr="string",
    ),
    Kind("struct time", "import time", "time.gmtime(0)", values(("other", "time.gmtime(86400)")), attr="tm_mday"),
    Kind(
        "weak reference",
        "import weakref\nclass C:\n    k = 2\nKEEP = C()\nOTHERS = C()\n",
        "weakref.ref(KEEP)",
        changes(("set", "$().k = 5", "$().k = 2"))
        + bodies(("other", "PUT(weakref.ref(OTHERS))"), ("dead", "PUT(weakref.ref(C()))")),
        attr="__callback__",
    ),
    Kind(
        "weak proxy",
        "import weakref\nclass C:\n    k = 2\nKEEP = C()\nOTHERS = C()\nOTHERS.k = 8\n",
        "weakref.proxy(KEEP)",
        changes(("set", "$.k = 5", "$.k = 2"))
        + bodies(("other", "PUT(weakref.proxy(OTHERS))"), ("dead", "PUT(weakref.proxy(C()))")),
    ),
    Kind(
        "weak value dictionary",
        "import weakref\nclass C:\n    k = 2\nKEEP = C()\nOTHERS = C()\n",
        "weakref.WeakValueDictionary(p=KEEP, q=OTHERS)",
        changes(
            ("set item", "$['p'] = OTHERS", "$['p'] = KEEP"),
            ("delete", "del $['p']", "$['p'] = KEEP"),
            ("element", "KEEP.k = 5", "KEEP.k = 2"),
        )
        + bodies(("dies", "OTHERS = C()", "O['q'] = OTHERS")),
        key="'p'",
        item="'p'",
        attr="data",
    ),
    Kind(
        "weak set",
        WEAK,
        "weakref.WeakSet([KEEP])",
        changes(("add", "$.add(OTHERS)", "$.discard(OTHERS)"), ("remove", "$.discard(KEEP)", "$.add(KEEP)"))
        + bodies(("dies", "KEEP = C()", "O.add(KEEP)")),
        item="KEEP",
        attr="data",
    ),
    Kind(
        "weak key dictionary",
        WEAK,
        "weakref.WeakKeyDictionary({KEEP: 1})",
        changes(("set item", "$[KEEP] = 4", "$[KEEP] = 1"), ("add", "$[OTHERS] = 2", "del $[OTHERS]"))
        + bodies(("dies", "KEEP = C()", "O[KEEP] = 1")),
        key="KEEP",
        item="KEEP",
        attr="data",
    ),
    Kind(
        "context variable",
        "import contextvars\nVAR = contextvars.ContextVar('VAR', default=2)\n",
        "VAR",
        changes(("set", "$.set(5)", "$.set(2)"), ("as bool", "$.set(True)", "$.set(2)")),
        attr="name",
    ),
    Kind(
        "thread local",
        "import threading\n",
        "threading.local()",
        changes(("set", "$.k = 5", "$.__dict__.clear()"), ("add", "$.missing = 5", "$.__dict__.clear()")),
    ),
    Kind(
        "lock",
        "import threading\n",
        "threading.Lock()",
        changes(("acquire", "$.acquire(False)", "$.release()")),
        attr="locked",
        avoid=("with",),
    ),  # waiting for it would not end
    Kind(
        "reentrant lock",
        "import threading\n",
        "threading.RLock()",
        changes(("acquire", "$.acquire()", "$.release()")),
        attr="acquire",
    ),
    Kind("event", "import threading\n", "threading.Event()", changes(("set", "$.set()", "$.clear()")), attr="_flag"),
    Kind(
        "random generator",
        "import random\n",
        "random.Random(5)",
        changes(("draw", "$.random()"), ("seed", "$.seed(5)")),
        attr="gauss_next",
        avoid=("pickle", "repr"),
    ),
    Kind(
        "torch generator",
        "",
        "torch.Generator().manual_seed(5)",
        changes(("draw", "torch.rand(1, generator=$)"), ("seed", "$.manual_seed(5)")),
        attr="device",
    ),
    Kind(
        "ctypes structure",
        "class C(ctypes.Structure):\n    k_ = 3\n    _fields_ = [('k', ctypes.c_int), ('z', ctypes.c_int * 2)]\n",
        "C(2, (3, 4))",
        changes(("set", "$.k = 5", "$.k = 2"), ("deep", "$.z[0] = 7", "$.z[0] = 3"))
        + bodies(("class attribute", "C.missing = 5", "del C.missing")),
    ),
    Kind("ctypes number", "", "ctypes.c_int(2)", changes(("set", "$.value = 5", "$.value = 2")), attr="value"),
    Kind(
        "ctypes array",
        "",
        "(ctypes.c_int * 3)(1, 2, 3)",
        changes(("set item", "$[0] = 5", "$[0] = 1")),
        attr="_length_",
    ),
    Kind(
        "environment",
        "import os, tempfile\n"
        # torch sets the folder itself, at some time
        "os.environ.setdefault('TORCHINDUCTOR_CACHE_DIR', tempfile.gettempdir())\n"
        "os.environ.pop('K_K', None)\nos.environ['K_K'] = '2'\n",
        "os.environ",
        changes(
            ("set item", "$['K_K'] = '5'", "$['K_K'] = '2'"),
            ("delete", "del $['K_K']", "$['K_K'] = '2'"),
            ("put", "os.putenv('K_K', '6')", "os.putenv('K_K', '2')"),
        ),
        key="'K_K'",
        item="'K_K'",
        attr="encoding",
        avoid=("whole",),
    ),  # long
    Kind(
        "sys",
        "import sys\nsys.k = 2\n",
        "sys",
        changes(("set", "$.k = 5", "$.k = 2"), ("delete", "del $.k", "$.k = 2"))
        + bodies(
            ("limit", "OLD = sys.getrecursionlimit(); sys.setrecursionlimit(OLD + 10)", "sys.setrecursionlimit(OLD)"),
            ("modules", "sys.modules['k_k'] = types", "del sys.modules['k_k']"),
        ),
        avoid=("whole", "class"),
    ),
    Kind(
        "module",
        "MOD = types.ModuleType('modk')\nMOD.k = 2\nMOD.items = [1, 2]\nMOD.f = lambda: 3\n",
        "MOD",
        changes(
            ("set", "$.k = 5", "$.k = 2"),
            ("as bool", "$.k = True", "$.k = 2"),
            ("delete", "del $.k", "$.k = 2"),
            ("add", "$.missing = 1", "del $.missing"),
            ("deep", "$.items.append(3)", "$.items.pop()"),
        )
        + bodies(
            ("function", "OLD = MOD.f; MOD.f = lambda: 9", "MOD.f = OLD"),
            ("getattr", "MOD.__getattr__ = lambda name: 'made ' + name", "del MOD.__getattr__"),
        ),
    ),
    Kind(
        "module with getattr",
        "MOD = types.ModuleType('modk')\nMOD.plus = 2\n"
        "exec('def __getattr__(name):\\n    if name.startswith(\"_\"): raise AttributeError(name)\\n'\n"
        "     '    return plus', vars(MOD))\n",
        "MOD",
        changes(("set", "$.k = 5", "del $.k"), ("below", "MOD.plus = 7", "MOD.plus = 2")),
    ),
    Kind(
        "module subclass",
        "class Lazy(types.ModuleType):\n    def __getattr__(self, name):\n"
        "        if name.startswith('_'): raise AttributeError(name)\n        return Lazy.made\n    made = 3\n"
        "    @property\n    def p(self): return 4\n",
        "Lazy('lazyk')",
        changes(("set", "$.k = 5", "del $.k"))
        + bodies(
            ("class attribute", "Lazy.made = 4", "Lazy.made = 3"),
            ("property", "Lazy.k = property(lambda s: 9)", "del Lazy.k"),
        ),
    ),
    Kind(
        "module of torch",
        "",
        "torch.nn.functional",
        bodies(
            ("add", "$.missing = 5", "del $.missing"),
            ("patch", "OLD = $.relu; $.relu = lambda t: t * 0", "$.relu = OLD"),
        ),
        attr="relu",
        avoid=("whole",),
    ),
    Kind(
        "namespace package",
        "import importlib.machinery, importlib.util\n"
        "SPEC = importlib.machinery.ModuleSpec('nsk', None, is_package=True)\n",
        "importlib.util.module_from_spec(SPEC)",
        changes(("set", "$.k = 5", "del $.k"), ("path", "$.__path__ = ['/other']")),
        attr="__path__",
    ),
)
