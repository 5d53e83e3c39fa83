"""Expressions and statements of law programs: tables of templates.

`<int>` is an expression of that kind, `<new:int>` a new local of that kind, `<old:int>` a local that exists,
`<fresh>` a new name, `<block>` a nested block, `<cond>` an alias of `<bool>`.  A kind's first row is used when the
program may not grow any more, so it holds no expression placeholders.
"""

from __future__ import annotations

#: kind -> (atoms, compounds); locals of the kind are offered beside the atoms
EXPRESSIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "int": (
        ("<lit:int>", "<lit:int>", "LIMIT", "COUNT", "THING.n", "THING.weight", "NUMS[0]", "TABLE['a']", "side.level", "PAIR[0]", "SLOT.a",
         "SLOT.b", "THING.child.n", "Base.total", "Base.weight", "Child.weight", "len(NUMS)", "NT.left", "COLOR.value", "FACT.size",
         "FACT.area", "LAZY.anything", "CONF['inner']['b']", "CONF['deep'][0][1]", "NET.steps", "DEQ[0]", "DD['y']", "NET.lin.in_features",
         "CONF['deep'][1]['z'].n", "BAG.grab('q')", "BAG['a']", "CTX.depth"),
        ("(<int> + <int>)", "(<int> - <int>)", "(<int> * 2)", "(<int> % 5)", "(<int> // 3)", "max(<int>, <int>)", "abs(<int>)",
         "(<int> if <bool> else <int>)", "<obj>.n", "<obj>.weight", "<obj>.double", "<obj>.child.n", "<obj>.more", "<ints>[-1]", "<ints>[<int>]",
         "len(<ints>)", "len(<table>)", "sum(<ints>)", "<table>.get('b', <int>)", "<table>['a']", "<table>[<str>]", "helper(<int>)",
         "helper(<int>, k=<int>)", "helper(<int>, <int>, bias=<int>)", "helper(*<ints>)", "helper(**{'n': <int>, 'bias': <int>})",
         "<obj>.score(<int>)", "<fn>(<int>)", "HANDLERS['go'](<int>)", "<obj>.fn(<int>)", "BOUND(<int>)", "PART(<int>)", "cached(<int>)",
         "getattr(<obj>, 'n')", "getattr(<obj>, 'extra', <int>)", "<tensor>.shape[0]", "<tensor>.dim()", "<tensor>.shape[-1]", "<tensor>.numel()",
         "len(<obj>)", "<obj>[0]", "sum(v for v in <ints>)", "len([v for v in <ints> if v > <int>])", "int(<bool>)",
         "functools.reduce(lambda p, q: p + q, <ints>, 0)", "(lambda q: q + <int>)(<int>)", "type(<obj>).weight", "Base.make(<int>).n",
         "<obj>.make(<int>).n", "Base.plain(<int>)", "<obj>.plain(<int>)", "sorted(<ints>)[0]", "sorted(<ints>, key=<fn>)[0]", "max(<ints>, default=<int>)",
         "vars(<obj>).get('n', 0)", "<obj>.__dict__['n']", "next(iter(<ints>), 0)", "DD[<str>]", "<obj>.extra", "Base.score(<obj>, <int>)",
         "operator.add(<int>, <int>)", "Record(<int>).left", "<obj>.bump(<int>).n", "len(<str>)", "Point(<int>, <int>).right", "dict(a=<int>)['a']",
         "operator.attrgetter('n')(<obj>)", "<slot>.a", "LAZY.<word>", "getattr(LAZY, <str>, 3)", "(<fresh> := <int>)", "TABLE.get(<str>, 0)",
         "sum(map(<fn>, <ints>))", "<obj>.shared.count(<int>)", "NUMS.index(<int>)", "divmod(<int>, 3)[1]", "math.gcd(<int>, 12)", "<any>"),
    ),
    "float": (
        ("<lit:float>", "<lit:float>", "RATE", "PAIR[1]", "THING.rate", "NET.scale", "math.pi"),
        ("(<float> * <float>)", "(<float> + <int>)", "float(<int>)", "(<int> / 2)", "math.sqrt(abs(<float>))", "<obj>.rate", "min(<float>, 1.0)",
         "(-<float>)", "round(<float>, 1)", "(<float> if <bool> else <int>)", "math.floor(<float>)"),
    ),
    "num": (("LIMIT", "RATE", "<lit:int>", "<lit:float>"), ("<int>", "<float>")),
    "str": (
        ("<lit:str>", "<lit:str>", "NAME", "THING.kind", "Base.kind", "COLOR.name"),
        ("(<str> + 'z')[:6]", "<str>.upper()", "str(<int>)", "'{}'.format(<int>)", "'{}-{:>3}'.format(<str>, <int>)", 'f"{<int>}"' , "type(<any>).__name__", "'-'.join(sorted(<table>))",
         "('%s:%s' % (<str>, <int>))", "<obj>.__class__.__name__", "<obj>.kind", "repr(<int>)", "max(<table>, key=<table>.get)", "<str>[::-1]",
         "type(<obj>).__qualname__", "str(<tensor>.dtype)", "next(iter(<table>))", "repr(NT)", "str(FACT)"),
    ),
    "bool": (
        ("<lit:bool>", "FLAG", "(NOTHING is None)", "NET.training", "torch.is_grad_enabled()", "('a' in TABLE)", "(COLOR is Color.RED)", "(TLIST[0] is BOX)",
         "(THING.state is BOX)", "(TENSORS['w'] is BOX)", "(len(THING) > 1)", "(THING == THING.child)", "bool(THING)", "(1 in THING)", "(NUMS is THING.items)"),
        ("(<int> > <int>)", "(<int> == <int>)", "(<int> <= <int>)", "(<str> == <str>)", "isinstance(<any>, int)", "isinstance(<any>, (str, float))",
         "hasattr(<obj>, 'extra')", "hasattr(<obj>, 'n')", "(<str> in <table>)", "(<int> in <ints>)", "(<int> in SEEN)", "(not <bool>)", "(<bool> and <bool>)",
         "(<bool> or <bool>)", "(<obj> is <obj>)", "(<any> is None)", "bool(<ints>)", "<tensor>.requires_grad", "(<tensor>.dtype == torch.float32)",
         "(<tensor>.shape[0] > <int>)", "(<tensor> is <tensor>)", "callable(<any>)", "(type(<obj>) is Base)", "isinstance(<obj>, Child)",
         "(<obj> == <obj>)", "issubclass(type(<obj>), Base)", "any(v > <int> for v in <ints>)", "all(v for v in <ints>)", "<tensor>.is_contiguous()",
         "(<int> in <obj>)", "bool(<obj>)", "(<tensor>.shape == <tensor>.shape)", "(THING.child is POOL[2])", "(NUMS is <ints>)", "isinstance(<obj>, Base)",
         "(<table> == <table>)", "(<ints> == <ints>)", "(<float> < <float>)", "(HANDLERS['go'] is f_dbl)", "('n' in vars(<obj>))", "(<any> == <any>)",
         "(<any> in (1, 'up', None))"),
    ),
    "tensor": (
        ("x", "x", "BOX", "BOX", "TENSORS['w']", "TLIST[0]", "THING.state", "NET.buf", "NET.lin.bias"),
        ("(<tensor> + <tensor>)", "(<tensor> * <num>)", "(<tensor> - <num>)", "torch.relu(<tensor>)", "<tensor>.sin()", "torch.tanh(<tensor>)", "<tensor>.clone()",
         "(<tensor> @ MAT)", "<tensor>.sum(-1, keepdim=True)", "torch.where(<tensor> > 0, <tensor>, <tensor>)", "torch.cat([<tensor>, <tensor>], -1)[..., :3]",
         "twist(<tensor>)", "twist(<tensor>, <num>)", "<obj>.shape_it(<tensor>)", "NET(<tensor>)", "NET.lin(<tensor>)", "F.linear(<tensor>, NET.lin.weight, NET.lin.bias)",
         "torch.full_like(<tensor>, <num>)", "<tensor>.to(torch.float64)", "<tensor>.float()", "<tensor>.detach()", "F.dropout(<tensor>, 0.5, NET.training)",
         "torch.rand(3)", "<tensor>[..., :1]", "<tensor>.mean()", "<tensor>.reshape(-1, 3)", "torch.stack([<tensor>, <tensor>]).sum(0)",
         "functools.reduce(torch.add, <tensors>)", "sum(<tensors>, <tensor>)", "(<tensor> if <bool> else <tensor>)", "<obj>.state",
         "<tensor>.add_(<num>)", "torch.tensor(<num>)", "torch.tensor([<float>, <float>, 1.0])", "(-<tensor>)", "(<num> / (<tensor>.abs() + 1))",
         "torch.zeros(3, dtype=<tensor>.dtype)", "<tensor>.view(<tensor>.shape)", "<tensor>.expand(2, -1, 3)[0]", "torch.clamp(<tensor>, min=<num>)",
         "<tensor>.unsqueeze(0).squeeze(0)", "F.layer_norm(<tensor>, (3,))", "NET.parts[0](<tensor>)", "NET.parts[1](<tensor>)", "TENSORS[<str>]",
         "max(<tensors>, key=lambda t: t.dim())", "torch.sin(input=<tensor>)", "(<tensor> > <num>).float()"),
    ),
    "tensors": (("TLIST", "[x, BOX]", "list(TENSORS.values())"), ("[<tensor>, <tensor>]", "[t * 2 for t in <tensors>]", "(<tensor>, <tensor>)")),
    "ints": (
        ("NUMS", "THING.items", "[1, 2]", "list(DEQ)", "side.items", "CONF['deep'][0]"),
        ("[<int>, <int>]", "[v + <int> for v in <ints>]", "sorted(<ints>)", "list(range(min(<int>, 4)))", "<ints>[1:]", "list(<table>.values())",
         "[*<ints>, <int>]", "<obj>.items", "list(map(<fn>, <ints>))", "[k for k, v in enumerate(<ints>)]", "list(gen(<int>))", "sorted(SEEN)",
         "[p * q for p, q in zip(<ints>, <ints>)]", "list(filter(None, <ints>))", "<obj>.shared", "list(<ints>)", "<ints>[::-1]", "list(<any>)",
         "[v for row in [<ints>, <ints>] for v in row][:6]", "copy.copy(<ints>)", "copy.deepcopy(<ints>)", "list(itertools.chain(<ints>, <ints>))[:5]"),
    ),
    "table": (
        ("TABLE", "THING.opts", "CONF['inner']", "{'a': 1}", "BAG", "extra"),
        ("dict(<table>)", "{'a': <int>, 'q': <int>}", "{k: v for k, v in <table>.items()}", "{**<table>, 'm': <int>}", "<obj>.opts",
         "(<table> | {'w': <int>})", "dict(zip('abc', <ints>))", "{k: <fn>(v) for k, v in sorted(<table>.items())}", "copy.deepcopy(<table>)"),
    ),
    "obj": (
        ("THING", "POOL[0]", "POOL[-1]", "THING.child", "CONF['who']", "CONF['deep'][1]['z']"),
        ("<obj>.child", "Base(<int>)", "Child(<int>)", "Child(<int>, more=<int>)", "(<obj> if <bool> else <obj>)", "copy.copy(<obj>)", "<obj>.bump()",
         "POOL[<int>]", "[p for p in POOL if p.n > <int>][0]", "max(POOL, key=lambda p: p.n)", "Base.make(<int>)", "(<obj> or <obj>)"),
    ),
    "slot": (("SLOT",), ("Slotted(<int>, <int>)", "SLOT")),
    "fn": (
        ("f_inc", "f_dbl", "helper", "BOUND", "PART", "HANDLERS['stop']", "THING.fn", "abs"),
        ("(lambda q: q + <int>)", "adder(<int>)", "<obj>.fn", "<obj>.score", "functools.partial(helper, bias=<int>)"),
    ),
    "any": (
        ("NOTHING", "LIMIT", "NAME", "THING", "BOX", "COLOR", "NUMS", "PAIR", "OUT"),
        ("<int>", "<str>", "<float>", "<bool>", "<ints>", "<table>", "<tensor>", "<obj>", "(<int>, <str>)", "<fn>", "Record(<int>, <tensor>)", "{<int>, <int>}",
         "<obj>.extra", "CONF['inner'].get(<str>)", "Point(<int>, <tensor>)", "[<any>]", "{'k': <any>}", "side.fresh"),
    ),
}

#: one-line statements
STATEMENTS: tuple[str, ...] = (
    *(f"<new:{k}> = <{k}>" for k in ("int", "int", "float", "str", "bool", "tensor", "tensor", "tensor", "ints", "table", "obj", "any")),
    "<old:int> += <int>", "<old:tensor> = <tensor>", "<old:tensor> += <num>", "<new:int>, <new:int> = <int>, <int>", "<new:int>, *<new:ints> = <ints>",
    "LIMIT = <int>", "COUNT += 1", "COUNT += <int>", "FLAG = <bool>", "NAME = <str>", "NOTHING = <any>", "NUMS = <ints>", "TABLE = <table>",
    "PAIR = (<int>, <float>)", "BOX = <tensor>", "THING = <obj>", "COLOR = Color.BLUE", "NT = NT._replace(left=<int>)",
    "<obj>.n = <int>", "<obj>.n += <int>", "<obj>.extra = <any>", "del <obj>.extra", "<obj>.double = <int>", "<obj>.items.append(<int>)", "<obj>.child = <obj>",
    "<obj>.child.n = <int>", "<obj>.state = <tensor>", "<obj>.state += <num>", "<obj>.fn = <fn>", "<obj>.opts[<str>] = <int>", "<obj>.weight = <int>",
    "<obj>.bump()", "<obj>.items = <ints>", "setattr(<obj>, 'extra', <int>)", "setattr(<obj>, <str>, <int>)", "delattr(<obj>, 'extra')", "vars(<obj>)['n'] = <int>", "<obj>.__dict__.update(n=<int>)",
    "<ints>.append(<int>)", "NUMS[0] = <int>", "NUMS.insert(0, <int>)", "NUMS.pop()", "NUMS[:] = <ints>", "NUMS.sort()", "NUMS.reverse()",
    "NUMS.extend(<ints>[:2])", "NUMS[1:2] = <ints>[:2]", "del NUMS[0]", "NUMS.clear()", "NUMS += [<int>]", "side.items.append(<int>)",
    "<table>['a'] = <int>", "<table>[<str>] = <int>", "TABLE.pop('a', None)", "TABLE.setdefault(<str>, <int>)", "TABLE.update(<table>)",
    "del TABLE['b']", "TABLE['a'] += 1", "TABLE.popitem()", "SEEN.add(<int>)", "SEEN.discard(<int>)", "SEEN.update(<ints>)",
    "DEQ.append(<int>)", "DEQ.popleft()", "DEQ.rotate(1)", "DD[<str>] += 1", "POOL.append(<obj>)", "POOL[0] = <obj>", "POOL.pop()",
    "CONF['inner'] = <table>", "CONF['who'] = <obj>", "CONF['deep'][0].append(<int>)", "CONF['deep'][1]['z'] = <obj>", "BAG[<str>] = <int>",
    "BOX.add_(<num>)", "BOX.mul_(0.5)", "<tensor>.mul_(0.5)", "x.add_(<num>)", "TLIST.append(<tensor>)", "TLIST[0] = <tensor>", "TENSORS['w'] = <tensor>", "BOX[0] = <num>",
    "NET.buf.add_(1)", "NET.buf = <tensor>", "NET.steps += 1", "NET.steps = <int>", "OUT.append((<int>, <tensor>))", "OUT.append(<any>)",
    "side.level = <int>", "side.fresh = <any>", "Base.weight = <int>", "Base.total += 1", "type(<obj>).total = <int>", "Base.shared.append(<int>)",
    "<slot>.a = <int>", "del SLOT.b", "SLOT.b = <any>", "HANDLERS['go'] = <fn>", "assert <bool>, <str>", "helper.mark = <int>",
    "<new:any> = <any>", "<fresh> = [<any>, <any>]", "del <old:int>", "torch.set_grad_enabled(<bool>)",
)

#: compound statements: the block placeholder is indented as it stands
COMPOUNDS: tuple[str, ...] = (
    "if <bool>:\n    <block>",
    "if <bool>:\n    <block>\nelse:\n    <block>",
    "if <bool>:\n    <block>\nelif <bool>:\n    <block>\nelse:\n    <block>",
    "for <new:int> in range(min(<int>, 3)):\n    <block>",
    "for <new:int> in list(<ints>)[:3]:\n    <block>",
    "for <new:int> in <ints>:\n    fuel += 1\n    if fuel > 8:\n        break\n    <block>",
    "for <new:str>, <new:int> in <table>.items():\n    fuel += 1\n    if fuel > 8:\n        break\n    <block>",
    "for <new:int>, <new:obj> in enumerate(POOL[:3]):\n    <block>",
    "for <new:tensor> in <tensors>:\n    fuel += 1\n    if fuel > 6:\n        break\n    <block>",
    "while <bool>:\n    fuel += 1\n    if fuel > 4:\n        break\n    <block>",
    "for <fresh> in (1, 2, 3):\n    if <bool>:\n        continue\n    if <bool>:\n        break\n    <block>\nelse:\n    <block>",
    "try:\n    <block>\nexcept (KeyError, IndexError, AttributeError, TypeError) as <new:err>:\n    <block>",
    "try:\n    <block>\nexcept KeyError:\n    <block>\nfinally:\n    COUNT += 1",
    "try:\n    if <bool>:\n        raise Trouble(<str>)\n    <block>\nexcept Trouble as <new:err>:\n    OUT.append(str(<old:err>))",
    "try:\n    <block>\nexcept Exception:\n    <block>\n    raise",
    "with CTX as <fresh>:\n    <block>",
    "with CTX:\n    if <bool>:\n        raise Trouble(<str>)\n    <block>",
    "with torch.no_grad():\n    <block>",
    "if <bool>:\n    raise Trouble(<str>, <int>)",
    "if <bool>:\n    return <any>, <tensor>",
    "match <any>:\n    case int():\n        <block>\n    case None | 'up':\n        <block>\n    case [first, *_]:\n        <block>\n    case Base(n=found):\n        <block>\n    case {'a': found}:\n        <block>\n    case _:\n        pass",
    "<fresh:acc> = <int>\ndef <fresh:step>(p, q=<int>):\n    nonlocal <same:acc>\n    <same:acc> += p\n    return <same:acc> + q\n<new:int> = <same:step>(<int>)\n<new:int> = <same:step>(<int>) + <same:acc>",
    "def <fresh:produce>(m):\n    for j in range(min(m, 3)):\n        got = yield j + LIMIT\n        if got:\n            break\n<new:ints> = list(<same:produce>(<int>))",
    "if (<new:int> := <int>) > 2:\n    <block>",
)

#: values mutations and the prelude put somewhere
LITERALS: dict[str, tuple[str, ...]] = {
    "int": ("0", "1", "2", "3", "4", "5", "-1", "-2", "7"),
    "float": ("0.5", "1.0", "2.5", "-1.5", "0.0"),
    "str": ("'a'", "'b'", "'c'", "'up'", "'n'", "'w'"),
    "bool": ("True", "False"),
    "any": ("None", "0", "1", "True", "'up'", "2.0", "(1, 2)", "[1]", "{'a': 1}", "torch.ones(3)", "Base(3)", "Other(2)", "Child(1)", "f_inc", "{1, 2}", "Fact(2)", "nn.Identity()"),
    "word": ("alpha", "be", "gamma_ray"),
}
