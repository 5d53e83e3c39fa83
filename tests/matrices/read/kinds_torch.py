"""Kinds of external objects: modules of networks, tensors, their subclasses, and small objects of torch."""

from __future__ import annotations

from .kind import Kind, bodies, changes
from .kinds_containers import values

__all__ = ["KINDS"]

NET = """
class Net(nn.Module):
    z = 3
    def __init__(self):
        super().__init__()
        self.k = 2
        self.lin = nn.Linear(2, 2)
        self.register_buffer('buf', torch.ones(2))
        self.items = [1, 2]
        nn.init.ones_(self.lin.weight); nn.init.zeros_(self.lin.bias)
    def m(self): return self.k
    def forward(self, t): return self.lin(t) * self.buf + self.k
class Net2(Net):
    z = 4
    def forward(self, t): return t
"""
MODULE = changes(
    ("set", "$.k = 5", "$.k = 2"),
    ("as float", "$.k = 2.0", "$.k = 2"),
    ("delete", "del $.k", "$.k = 2"),
    ("add", "$.missing = 1", "del $.missing"),
    ("deep", "$.items.append(3)", "$.items.pop()"),
    ("buffer", "$.buf = torch.zeros(2)", "$.buf = torch.ones(2)"),
    ("eval", "$.eval()", "$.train()"),
    ("no buffer", "$.buf = None", "$.buf = torch.ones(2)"),
) + bodies(
    ("class attribute", "Net.z = 5; Net.missing = 2", "Net.z = 3; del Net.missing"),
    ("forward", "OLD = Net.forward; Net.forward = lambda s, t: t * 9", "Net.forward = OLD"),
    ("own forward", "$.forward = lambda t: t * 7", "del $.forward"),
    ("class of", "$.__class__ = Net2", "$.__class__ = Net"),
    ("layer", "$.lin = nn.Identity()"),
    ("weight", "$.lin.weight = nn.Parameter(torch.zeros(2, 2))"),
    ("frozen", "$.lin.weight.requires_grad_(False)"),
    ("call", "OLD = Net.__call__; Net.__call__ = lambda s, t: t * 11", "del Net.__call__"),
)
TENSOR = changes(
    ("in place", "$.add_(1)", "$.sub_(1)"),
    ("attribute", "$.k = 5", "$.__dict__.clear()"),
    ("data", "$.data = torch.zeros(2)", "$.data = torch.tensor([1., 2.])"),
    ("resize", "$.data = torch.zeros(3)", "$.data = torch.tensor([1., 2.])"),
) + bodies(
    ("double", "PUT(MAKE().double())"),
    ("longer", "PUT(torch.cat([MAKE(), MAKE()]))"),
    ("requires grad", "$.requires_grad_()"),
    ("class of Tensor", "torch.Tensor.missing = 5", "del torch.Tensor.missing"),
)
TF = """
class S(torch.Tensor):
    k = 2
    reg = [1]
    calls = 0
    def m(self): return S.k
    @classmethod
    def __torch_function__(cls, f, t, a=(), kw=None):
        out = super().__torch_function__(f, t, a, kw or {})
        return out
class S2(torch.Tensor):
    k = 3
"""
LOGGING = """
LOG = []
class S(torch.Tensor):
    k = 2
    def m(self): return S.k
    @classmethod
    def __torch_function__(cls, f, t, a=(), kw=None):
        LOG.append(getattr(f, '__name__', '?'))
        with torch._C.DisableTorchFunctionSubclass():
            return f(*a, **(kw or {}))
"""
WRAPPER = """
class S(torch.Tensor):
    k = 2
    @staticmethod
    def __new__(cls, inner): return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
    def __init__(self, inner): self.inner = inner
    def m(self): return S.k
    def __tensor_flatten__(self): return ['inner'], None
    @staticmethod
    def __tensor_unflatten__(inner, ctx, size, stride): return S(inner['inner'])
    @classmethod
    def __torch_dispatch__(cls, f, types, args=(), kwargs=None):
        un = lambda v: v.inner if isinstance(v, S) else v
        out = f(*torch.utils._pytree.tree_map(un, args), **torch.utils._pytree.tree_map(un, kwargs or {}))
        return torch.utils._pytree.tree_map(lambda v: S(v) if isinstance(v, torch.Tensor) else v, out)
    def __repr__(self): return f'S({self.inner})'
"""
SUB = bodies(
    ("class attribute", "S.k = 5", "S.k = 2"),
    ("class missing", "S.missing = 5", "del S.missing"),
    ("patch method", "OLD = S.m; S.m = lambda s: 9", "S.m = OLD"),
    ("special method", "S.__add__ = lambda s, o: 'sum'; S.__len__ = lambda s: 9", "del S.__add__, S.__len__"),
    ("plain", "PUT(torch.tensor([1., 2.]))"),
)

KINDS = (
    Kind("nn module", NET, "Net()", MODULE),
    Kind(
        "nn linear",
        "def made():\n    o = nn.Linear(2, 2)\n    nn.init.ones_(o.weight); nn.init.zeros_(o.bias)\n    return o\n",
        "made()",
        changes(("set", "$.in_features = 5", "$.in_features = 2"), ("add", "$.missing = 4", "del $.missing"))
        + bodies(
            ("weight", "$.weight = nn.Parameter(torch.zeros(2, 2))"),
            ("data", "$.weight.data.zero_()"),
            ("no bias", "$.bias = None"),
            ("hook", "H = $.register_forward_hook(lambda m, a, out: out * 2)", "H.remove()"),
            ("forward", "nn.Linear.forward, OLD = (lambda s, t: t), nn.Linear.forward", "nn.Linear.forward = OLD"),
        ),
        attr="in_features",
    ),
    Kind(
        "sequential",
        "",
        "nn.Sequential(nn.ReLU(), nn.Tanh())",
        changes(("append", "$.append(nn.ReLU())"), ("set item", "$[0] = nn.Tanh()"), ("delete", "del $[0]")),
        attr="training",
    ),
    Kind(
        "module list",
        "",
        "nn.ModuleList([nn.ReLU(), nn.Tanh()])",
        changes(("append", "$.append(nn.ReLU())"), ("set item", "$[0] = nn.Tanh()")),
        attr="training",
    ),
    Kind(
        "module dict",
        "",
        "nn.ModuleDict({'p': nn.ReLU()})",
        changes(("set item", "$['p'] = nn.Tanh()"), ("add", "$['q'] = nn.Tanh()")),
        attr="training",
        key="'p'",
        item="'p'",
    ),
    Kind(
        "parameter list",
        "",
        "nn.ParameterList([torch.ones(2)])",
        changes(("append", "$.append(torch.ones(2))"), ("set item", "$[0] = nn.Parameter(torch.zeros(2))")),
        attr="training",
    ),
    Kind(
        "parameter",
        "",
        "nn.Parameter(torch.tensor([1., 2.]))",
        changes(
            ("attribute", "$.k = 5", "$.__dict__.clear()"),
            ("data", "$.data = torch.zeros(2)", "$.data = torch.tensor([1., 2.])"),
        )
        + bodies(("frozen", "$.requires_grad_(False)"), ("gradient", "$.grad = torch.ones(2)")),
        attr="grad",
    ),
    Kind("tensor", "", "torch.tensor([1., 2.])", TENSOR, attr="dtype"),
    Kind(
        "tensor of ints",
        "",
        "torch.tensor([1, 2])",
        changes(("in place", "$.add_(1)", "$.sub_(1)"), ("set item", "$[0] = 9", "$[0] = 1"))
        + bodies(("float", "PUT(MAKE().float())")),
        attr="shape",
    ),
    Kind(
        "tensor scalar",
        "",
        "torch.tensor(2)",
        changes(("in place", "$.add_(1)", "$.sub_(1)"))
        + bodies(("float", "PUT(MAKE().float())"), ("bool", "PUT(MAKE().bool())")),
        attr="ndim",
    ),
    Kind(
        "tensor with attributes",
        "def made():\n    t = torch.tensor([1., 2.])\n    t.k = 2\n    return t\n",
        "made()",
        changes(
            ("set", "$.k = 5", "$.k = 2"), ("delete", "del $.k", "$.k = 2"), ("add", "$.missing = 5", "del $.missing")
        ),
    ),
    Kind(
        "tensor subclass",
        TF,
        "torch.tensor([1., 2.]).as_subclass(S)",
        TENSOR[:4]
        + SUB
        + bodies(
            ("class of", "$.__class__ = S2", "$.__class__ = S"),
            (
                "patch torch function",
                "OLD = S.__dict__['__torch_function__']; "
                "S.__torch_function__ = classmethod(lambda cls, f, t, a=(), kw=None: 'patched')",
                "S.__torch_function__ = OLD",
            ),
        ),
    ),
    Kind(
        "tensor subclass plain",
        "class S(torch.Tensor):\n    k = 2\n    __torch_function__ = torch._C._disabled_torch_function_impl\n"
        "    def m(self): return S.k\n",
        "torch.tensor([1., 2.]).as_subclass(S)",
        TENSOR[:3] + SUB,
    ),
    Kind(
        "tensor subclass logging",
        LOGGING,
        "torch.tensor([1., 2.]).as_subclass(S)",
        TENSOR[:2] + SUB[:3],
        avoid=("whole",),
    ),
    Kind(
        "wrapper subclass",
        WRAPPER,
        "S(torch.tensor([1., 2.]))",
        SUB
        + changes(
            ("inner", "$.inner = torch.zeros(2)", "$.inner = torch.tensor([1., 2.])"),
            ("attribute", "$.missing = 5", "del $.missing"),
        ),
    ),
    Kind(
        "torch function object",
        "class S:\n    k = 2\n    @classmethod\n"
        "    def __torch_function__(cls, f, t, a=(), kw=None): return f.__name__, cls.k\n",
        "S()",
        bodies(
            ("class attribute", "S.k = 5", "S.k = 2"),
            (
                "patch",
                "OLD = S.__dict__['__torch_function__']; S.__torch_function__ = classmethod(lambda *a, **k: 'other')",
                "S.__torch_function__ = OLD",
            ),
        ),
    ),
    Kind("dtype", "", "torch.float32", values(("other", "torch.float64"), ("text", "'float32'")), attr="itemsize"),
    Kind(
        "device",
        "",
        "torch.device('cpu')",
        values(("other", "torch.device('meta')"), ("index", "torch.device('cpu', 0)")),
        attr="type",
    ),
    Kind("finfo", "", "torch.finfo(torch.float32)", values(("other", "torch.finfo(torch.float64)")), attr="eps"),
    Kind(
        "optimizer",
        "",
        "torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.5)",
        changes(
            ("rate", "$.param_groups[0]['lr'] = 0.1", "$.param_groups[0]['lr'] = 0.5"),
            ("add", "$.missing = 5", "del $.missing"),
        ),
        attr="param_groups",
    ),
    Kind("storage", "", "torch.tensor([1., 2.]).untyped_storage()", changes(("fill", "$.fill_(0)")), attr="nbytes"),
    Kind(
        "distribution",
        "",
        "torch.distributions.Normal(0.0, 1.0)",
        changes(("set", "$.loc = torch.tensor(2.0)")),
        attr="loc",
    ),
)
