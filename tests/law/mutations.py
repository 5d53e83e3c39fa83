"""What may change between two calls of a law program: statements executed in the world's namespace.

Same template language as grammar.py, literals only.  `GENTLE` keeps types, so that programs go on working; `HARSH`
changes types, classes, functions and sharing.  A statement that fails fails in both worlds alike and is ignored.
"""

from __future__ import annotations

GENTLE: tuple[str, ...] = (
    "LIMIT = <lit:int>", "LIMIT += 1", "COUNT = <lit:int>", "FLAG = not FLAG", "FLAG = not FLAG", "NAME = <lit:str>",
    "RATE = <lit:float>", "NOTHING = <lit:any>",
    "NUMS.append(<lit:int>)", "NUMS[0] = <lit:int>", "NUMS.pop()", "NUMS = [<lit:int>, <lit:int>]", "NUMS = list(NUMS)",
    "NUMS.reverse()",
    "TABLE['a'] = <lit:int>", "TABLE.pop('b', None)", "TABLE['new'] = <lit:int>",
    "TABLE = dict(reversed(TABLE.items()))", "TABLE = dict(TABLE)",
    "PAIR = (<lit:int>, <lit:float>)", "SEEN.add(<lit:int>)", "SEEN.discard(1)", "DEQ.append(<lit:int>)",
    "DEQ.rotate(1)", "DD['y'] = <lit:int>", "DD[<lit:str>] = 5",
    "THING.n = <lit:int>", "THING.n += 1", "THING.child.n = <lit:int>", "THING.items.append(<lit:int>)",
    "THING.items = [<lit:int>]", "THING.opts[<lit:str>] = <lit:int>", "THING.rate = <lit:float>",
    "POOL[0].n = <lit:int>", "POOL[1].n = <lit:int>", "POOL[-1].more = <lit:int>", "POOL.append(Base(<lit:int>))",
    "POOL.reverse()", "POOL[0].child = Base(<lit:int>)",
    "CONF['inner']['b'] = <lit:int>", "CONF['deep'][0][1] = <lit:int>", "CONF['who'] = Child(<lit:int>)",
    "CONF['deep'][1]['z'] = POOL[0]", "CONF['inner'] = {'a': <lit:int>, 'b': <lit:int>}",
    "SLOT.a = <lit:int>", "SLOT.b = <lit:int>", "side.level = <lit:int>", "side.items.append(<lit:int>)",
    "BAG['q'] = <lit:int>", "BAG['a'] = <lit:int>",
    "Base.weight = <lit:int>", "Child.weight = <lit:int>", "Base.total = <lit:int>", "Base.kind = <lit:str>",
    "Base.shared.append(<lit:int>)", "Lazy.level = <lit:int>", "LAZY.level = <lit:int>",
    "LAZY.anything = <lit:int>", "COLOR = Color.BLUE", "COLOR = Color.RED", "NT = NT._replace(left=<lit:int>)",
    "NT = Point(<lit:int>, <lit:int>)", "FACT = Fact(<lit:int>)",
    "NET.steps = <lit:int>", "NET.train(not NET.training)", "NET.scale = <lit:float>", "Net.scale = <lit:float>",
    "CTX.depth = <lit:int>", "THING.extra = <lit:int>", "POOL[0].extra = <lit:int>",
    "ARGS[0] = torch.rand(2, 3)", "ARGS[0] = torch.rand(4, 3)", "ARGS[0] = torch.rand(1, 3)", "ARGS[1] = <lit:int>",
    "ARGS[1] += 1", "ARGS[2].n = <lit:int>", "ARGS[2] = Base(<lit:int>)",
    "ARGS[2] = Child(<lit:int>)", "KWARGS['flag'] = False", "KWARGS['a'] = <lit:int>", "KWARGS['zeta'] = <lit:int>",
    "KWARGS.clear()", "ARGS.append(<lit:int>)", "del ARGS[3:]",
    "BOX = torch.rand(3)", "BOX.add_(1)", "TENSORS['w'] = torch.rand(3)", "TLIST.append(torch.rand(3))",
    "TLIST[0] = torch.rand(3)", "THING.state = torch.rand(3)", "NET.buf = torch.rand(3)",
    "NET.buf.add_(1)", "MAT = torch.rand(3, 3)", "OUT.clear()", "OUT.append(<lit:int>)",
    "helper.__defaults__ = (<lit:int>,)", "helper.__kwdefaults__ = {'bias': <lit:int>}",
    "twist.__defaults__ = (<lit:float>,)", "root.__defaults__ = (<lit:int>, POOL[0])", "set_cell(0, <lit:int>)",
    "set_cell(1, [<lit:int>, <lit:int>])", "set_cell(2, POOL[1])",
    "RUNNER.n = <lit:int>", "RUNNER.child = POOL[0]", "HANDLERS['stop'].__closure__[0].cell_contents = <lit:int>",
    "HANDLERS['go'] = adder(<lit:int>)", "PART = functools.partial(helper, k=<lit:int>)",
    "BOUND = POOL[0].score", "BOUND = POOL[1].score", "THING.fn = f_dbl", "POOL[0].fn = adder(<lit:int>)",
"cached.cache_clear()", "MODE = 'no_grad'", "MODE = ''", "MODE = 'inference'",
)

HARSH: tuple[str, ...] = (
    "LIMIT = <lit:any>", "NAME = <lit:any>", "FLAG = <lit:any>", "RATE = <lit:any>", "NUMS = <lit:any>",
    "NUMS[0] = <lit:any>", "TABLE['a'] = <lit:any>", "TABLE = <lit:any>", "PAIR = <lit:any>",
    "NUMS = tuple(NUMS)", "NUMS = collections.deque(NUMS)", "TABLE = collections.OrderedDict(TABLE)",
    "TABLE = types.MappingProxyType(TABLE)", "BAG = dict(BAG)", "DD.default_factory = None",
    "NUMS[0] = float(NUMS[0])", "LIMIT = float(LIMIT)", "LIMIT = bool(LIMIT)", "RATE = -0.0", "RATE = float('nan')",
    "RATE = float('inf')", "LIMIT = 10 ** 20", "TABLE = {}", "NUMS = []", "POOL.clear()",
    "THING.n = <lit:any>", "THING.items = <lit:any>", "THING.child = <lit:any>", "THING.child = THING",
    "THING.child = None", "THING = POOL[0]", "THING = <lit:any>", "POOL[0] = POOL[1]", "POOL[0] = THING",
    "THING.items = NUMS", "THING.opts = TABLE", "CONF['inner'] = TABLE", "CONF['inner'] = CONF",
    "NUMS = CONF['deep'][0]", "side.items = NUMS", "Base.shared = NUMS", "CONF['deep'][1]['z'] = <lit:any>",
    "THING.__class__ = Child", "THING.__class__ = Other", "POOL[0].__class__ = Other", "THING.__class__ = Base",
    "Child.__bases__ = (Other2,)", "del THING.n", "del THING.items", "THING.n = None",
    "Base.score = lambda self, k: k + 1", "Child.score = lambda self, k: k - 5", "Child.score = Base.score",
    "THING.score = lambda k: k * 7", "POOL[0].score = f_inc", "Base.shape_it = lambda self, t: t * 3",
    "Base.double = property(lambda self: 5)", "Base.double = 7", "del Base.double",
    "Base.weight = property(lambda self: self.n)", "del Child.weight", "del Base.weight",
    "Base.n = property(lambda self: 99)",
    "Base.n = 12", "Base.extra = 9", "Base.__len__ = lambda self: 2", "Base.__bool__ = lambda self: False",
    "Base.__eq__ = lambda self, other: True", "Base.__getitem__ = lambda self, i: (7, 8, 9)[i]",
    "Base.__getattr__ = lambda self, name: 11", "Base.__contains__ = lambda self, v: True",
    "Base.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value)",
    "Base.__getattribute__ = lambda self, name: object.__getattribute__(self, name)",
    "Base.__init__ = lambda self, n: vars(self).update(n=n, items=[], child=None)",
    "Base.__new__ = lambda cls, *a, **k: object.__new__(cls)",
    "Child.__init__ = Base.__init__", "Base.make = classmethod(lambda cls, n: Child(n))",
    "Base.plain = staticmethod(f_dbl)", "Base.fn = f_dbl", "del THING.fn", "Base.bump = lambda self, by=1: POOL[0]",
    "Lazy.__getattr__ = lambda self, name: 1", "Lazy.anything = 3", "Context.__exit__ = lambda self, *a: True",
    "Context.__enter__ = lambda self: None", "Fact.size = 8", "Fact.area = 3", "Bag.grab = lambda self, key: 0",
    "Bag.__getitem__ = lambda self, key: 5", "Bag.get = lambda self, key, default=None: 2",
    "Point.left = property(lambda self: 4)", "Color.RED._value_ = 6",
    "Record.__init__ = lambda self, a, b=None: vars(self).update(left=a, right=1)",
    "helper = f_inc", "helper.__code__ = f_inc.__code__", "f_inc.__code__ = f_dbl.__code__", "f_dbl = lambda v: v - 1",
    "twist = lambda t, amount=2: t * amount", "gen = lambda stop: iter([1])", "adder = lambda amount: f_inc",
    "HANDLERS['go'] = f_inc", "HANDLERS['go'] = THING.score", "HANDLERS['go'] = abs", "PART = f_inc",
    "PART.keywords['k'] = 9", "BOUND = f_inc", "cached = f_dbl", "THING.fn = Base.plain", "helper.mark = 3",
    "len = lambda v: 42", "sum = lambda v, start=0: start", "sorted = lambda v, key=None: list(v)",
    "isinstance = lambda a, b: True", "max = lambda *a, **k: 1", "del len", "del sum",
    "ARGS[0] = ARGS[0].double()", "ARGS[0] = ARGS[0].clone().requires_grad_()", "ARGS[0].requires_grad_(False)",
    "ARGS[0] = BOX", "ARGS[0] = BOX.expand(2, 3)", "ARGS[0] = torch.rand(3, 2).t()", "BOX = ARGS[0]",
    "ARGS[0] = torch.rand(2, 3, requires_grad=True) * 2", "ARGS[0] = nn.Parameter(torch.rand(2, 3))",
    "ARGS[0] = torch.rand(2, 5)", "ARGS[0] = torch.rand(3)", "ARGS[0] = NET.lin.weight", "ARGS[0] = <lit:any>",
    "ARGS[0] = torch.ones(2, 3, dtype=torch.int64)",
    "ARGS[1] = <lit:any>", "ARGS[1] = ARGS[0]", "ARGS[2] = THING", "ARGS[2] = POOL[0]", "ARGS[2] = <lit:any>",
    "ARGS[2].items = NUMS", "ARGS[2].child = ARGS[2]", "del ARGS[1:]", "del ARGS[2:]", "KWARGS['flag'] = <lit:any>",
    "KWARGS['bogus'] = NUMS", "ARGS.clear()",
    "BOX.requires_grad_()", "BOX.data = torch.rand(3)", "BOX.data = torch.rand(2, 3)", "BOX = BOX.double()",
    "BOX = nn.Parameter(BOX.detach().clone())", "TENSORS['w'] = BOX", "TLIST[0] = BOX", "TLIST[0] = BOX.detach()",
    "THING.state = BOX", "BOX = torch.rand(1)",
    "TENSORS['w'] = BOX[:]", "TLIST[:] = [BOX, BOX]", "TLIST.clear()", "BOX.set_(torch.rand(2, 3))", "BOX.t_()",
    "BOX.tag = 5", "MAT.requires_grad_()", "NET.buf = NET.buf.double()", "NET.buf.requires_grad_()", "NET.buf = None",
    "NET.buf = BOX",
    "NET.lin = nn.Linear(3, 3)", "NET.lin = nn.Linear(3, 3, bias=False)", "NET.lin = nn.Identity()",
    "NET.lin.weight.requires_grad_(False)", "NET.lin.weight.data = torch.rand(3, 3)", "NET.double()",
    "NET.lin.weight = nn.Parameter(torch.rand(3, 3))", "NET.parts.append(nn.ReLU())",
    "NET.parts[0] = NET.lin", "NET.parts = nn.ModuleList([nn.Identity(), nn.ReLU()])",
    "NET.lin.register_forward_hook(lambda m, a, out: out * 2)",
    "NET.register_forward_pre_hook(lambda m, a: (a[0] + 1,))", "NET.forward = lambda t: t",
    "Net.forward = lambda self, t: t * 4", "nn.Linear",
    "NET.lin.forward = lambda t: t + 1", "del NET.parts", "NET.extra_param = nn.Parameter(torch.rand(3))",
    "side.level = <lit:any>", "del side.level", "side.fresh = <lit:any>", "side = THING", "side.items = None",
    "del SLOT.b", "SLOT.a = <lit:any>", "SLOT = Base(2)", "LAZY = SLOT",
    "COLOR = 1", "NT = (1, 2)", "FACT = Base(2)", "CTX = contextlib.nullcontext()", "CONF['deep'] = None",
    "CONF['deep'][0] = NUMS", "CONF.clear()", "SEEN = list(SEEN)", "DEQ = collections.deque([9])", "DEQ.clear()",
    "OUT = NUMS", "OUT = tuple(OUT)", "root.__defaults__ = (5,)", "root.__kwdefaults__ = {'flag': 0}",
    "set_cell(0, <lit:any>)", "set_cell(1, NUMS)", "set_cell(1, <lit:any>)", "set_cell(2, <lit:any>)",
"RUNNER.n = <lit:any>", "RUNNER.child = RUNNER", "RUNNER.memory = BOX", "RUNNER.inner = NET.lin",
"RUNNER.net = nn.Identity()", "type(RUNNER).scale = <lit:any>", "RUNNER.train(False)",
)

#: appended to the prelude: what mutations need
HELPERS = '''
import contextlib


class Other2(Base):
    weight = 50

    def score(self, k):
        return k * 1000


def set_cell(index, value):
    root.__closure__[index].cell_contents = value
'''
