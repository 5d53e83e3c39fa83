"""Law programs about facts of objects: where an attribute comes from, and every way to read, write, replace and copy it.

Classes with C metaclasses (tensor subclasses, parameters, ctypes structures), abstract classes, enums, metaclasses in Python; instances
with slots, `__getattr__`, `__getattribute__`, descriptors, cached properties; what is patched on torch.Tensor; function modes; small
tensors whose values decide.  `facts_world.py` is their world.  Most rows are products of two tables: a thing, and what is done with it.
"""

from __future__ import annotations

from unittest import mock

from . import generate as _generate
from .facts_world import PRELUDE
from .generate import Program

__all__ = ["generate_facts"]

#: classes with a number of their own: class, instance, the name of the number
CLASSES = (("Quant", "QUANT", "bits"), ("Finer", "FINER", "bits"), ("Logged", "LOGGED", "hits"),
           ("Odd", "ODD", "factor"),
           ("Weight", "WEIGHT", "gain"), ("Vec", "VEC", "unit"), ("Disk", "DISK", "side"), ("Tone", "TONE", "step"),
           ("Listed", "LISTED", "count"), ("Spied", "SPIED", "base"), ("Slots", "SLOTS", "scale"),
           ("Loose", "LOOSE", "rank"),
           ("Strict", "STRICT", "grade"), ("Held", "HELD", "price"), ("Both", "BOTH", "pick"),
           ("Prepped", "PREPPED", "weight"), ("Typed", "TYPED", "width"), ("Marked", "MARKED", "seen"),
           ("MarkedOnce", "MARKED", "seen"), ("Kept", "KEPT", "floor"))

#: what is done with such a class {c}, its instance {o} and its number {a}
CLASS_INTS = ("{c}.{a}", "{o}.{a}", "type({o}).{a}", "{o}.__class__.{a}", "getattr({c}, '{a}')",
              "getattr({c}, 'spare', <int>)",
              "getattr({o}, 'spare', <int>)", "vars({c}).get('{a}', <int>)", "{c}.__dict__['{a}']",
              "operator.attrgetter('{a}')({o})",
              "{o}.total()", "{c}.total({o})", "{c}.wide()", "type({o}).wide()", "getattr({o}, 'total')()",
              "inspect.getattr_static({c}, '{a}', <int>)",
              "object.__getattribute__({o}, '{a}')", "len({c}.__mro__)")
CLASS_BOOLS = ("hasattr({c}, 'spare')", "hasattr({o}, 'spare')", "('{a}' in vars({c}))", "('spare' in {c}.__dict__)",
               "isinstance({o}, {c})",
               "(type({o}) is {c})", "hasattr({o}, '{a}')", "issubclass({c}, torch.Tensor)",
               "callable(getattr({c}, 'total', None))")
CLASS_STRS = ("{c}.__name__", "type({o}).__qualname__", "type({c}).__name__", "{c}.total.__name__")
CLASS_STATEMENTS = ("{c}.{a} = <int>", "{c}.{a} += 1", "type({o}).{a} = <int>", "setattr({c}, '{a}', <int>)",
                    "{c}.spare = <int>", "del {c}.spare",
                    "delattr({c}, 'spare')", "del {c}.{a}", "{o}.spare = <int>", "del {o}.spare", "{o}.{a} = <int>")
CLASS_GENTLE = ("{c}.{a} = <lit:int>", "{c}.{a} += 1", "{c}.{a} = int(str({c}.{a}))", "{c}.spare = <lit:int>",
                "{o}.spare = <lit:int>",
                "{o}.{a} = <lit:int>", "{c}.unread = <lit:int>")
CLASS_HARSH = ("del {c}.{a}", "del {c}.spare", "del {o}.spare", "{c}.{a} = <lit:any>",
               "{c}.{a} = property(lambda self: 4)", "del {c}.total",
               "{c}.total = lambda self: 5", "{c}.total = property(lambda self: f_inc)", "{o}.total = lambda: 6",
               "del {o}.total", "{c}.total = f_dbl",
               "{c}.wide = classmethod(lambda cls: 9)", "{c}.wide = staticmethod(lambda: 8)",
               "{c}.__name__ = 'Renamed'", "{c}.{a} = HELD.soft",
               "{c}.__getattr__ = lambda self, name: 3", "del {c}.__getattr__", "{c}.total.__defaults__ = ()")

#: tensors, and what is done with one
TENSORS = ("QUANT", "FINER", "LOGGED", "ODD", "WEIGHT", "TAGGED", "Quant.bias")
TENSOR_TENSORS = ("({t} + <num>)", "torch.sin({t})", "{t}.relu()", "({t} * <tensor>)", "{t}.sigmoid()",
                  "(<tensor> - {t})", "{t}.sin()", "{t}.clone()",
                  "{t}.as_subclass(torch.Tensor)", "torch.relu({t}) + 1", "{t}[:2].sum()", "{t}.detach()",
                  "x.as_subclass(type({t}))")
TENSOR_INTS = ("{t}.shape[0]", "{t}.size(0)", "len({t})", "{t}.dim()", "getattr({t}, 'tag', <int>)",
    "len(getattr({t}, 'info', ''))")
TENSOR_GENTLE = ("{t}.tag = <lit:int>", "{t}.data.add_(1)")
TENSOR_HARSH = ("del {t}.tag", "{t}.info = {{'a': <lit:int>}}", "{t}.__class__ = Logged", "{t}.__class__ = Quant",
                "{t}.__class__ = torch.Tensor",
                "{t}.tag = torch.ones(3)", "{t}.sigmoid = lambda: 3", "del {t}.sigmoid")

#: objects that can be copied, and what is done with one
COPIED = ("KEPT", "TYPED", "WIDE", "PREPPED",
          "SLOTS", "LOOSE", "STRICT", "HELD", "ODICT", "DDICT", "TALLY", "FRAC", "DISK", "BOTH", "NUM", "SMALL", "DEC")
COPY_ANY = ("copy.copy({o})", "copy.deepcopy({o})", "{o}", "type({o})", "[{o}, {o}]")
COPY_GENTLE = ("{o} = copy.copy({o})", "{o} = copy.deepcopy({o})", "{o} = pickle.loads(pickle.dumps({o}))",
    "copy.deepcopy({o})", "pickle.dumps({o})")

#: special methods put on classes and taken off again
SPECIAL = ("__len__ = lambda self: 2", "__bool__ = lambda self: False", "__add__ = lambda self, other: 40",
           "__eq__ = lambda self, other: True",
           "__getitem__ = lambda self, key: 5", "__call__ = lambda self, *a: 6", "__int__ = lambda self: 9",
           "__contains__ = lambda self, v: True",
           "__iter__ = lambda self: iter((1, 2))", "__hash__ = lambda self: 3", "__radd__ = lambda self, other: 41",
           "__str__ = lambda self: 's'")
SPECIAL_CLASSES = ("Quant", "Odd", "Logged", "Disk", "Listed", "Slots", "Held", "Loose", "Strict", "Both", "Left",
    "Odict", "Registry", "Prepped", "Typed", "Marked", "Kept", "Wide")
SPECIAL_OBJECTS = ("QUANT", "ODD", "LOGGED", "DISK", "LISTED", "SLOTS", "HELD", "LOOSE", "STRICT", "BOTH", "ODICT",
    "Listed", "PREPPED", "TYPED", "MARKED", "KEPT", "WIDE")
SPECIAL_ANY = ("len({o})", "bool({o})", "({o} + <int>)", "({o} == <int>)", "{o}[0]", "{o}(<int>)", "int({o})",
               "(<int> in {o})", "list({o})",
               "(<int> + {o})", "[1 if {o} else 2]")

#: names that may be put on torch.Tensor; none is in its own dictionary (see `steer.clean_tensors`)
PATCHES = ("sigmoid = zeroed", "sigmoid = lambda self: self + 1", "sin = zeroed", "my_k = <lit:int>",
           "twice = property(lambda self: self * 2)",
           "my_f = lambda self, k=<lit:int>: self + k", "__add__ = lambda self, other: torch.mul(self, other)",
           "relu = lambda self: self * 3",
           "my_k = property(lambda self: 3)", "my_c = classmethod(lambda cls: 8)", "__call__ = lambda self, v: v + 1")
UNPATCHES = ("sigmoid", "sin", "my_k", "twice", "my_f", "__add__", "relu", "my_c", "__call__")


def _product(things: tuple[object, ...], templates: tuple[str, ...]) -> tuple[str, ...]:
    """Every template for every thing; a thing is a row of `CLASSES` or a name."""
    found = []
    for thing in things:
        c, o, a = thing if isinstance(thing, tuple) else (thing, thing, "")
        found += [t.format(c=c, o=o, a=a, t=o) for t in templates]
    return tuple(found)


EXPRESSIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "int": (("Listed.size", "Listed.anything", "sum(Listed)", "Spied.lucky", "TONE.value", "DISK.area()", "SLOTS.a",
             "SLOTS.b", "LOOSE.n", "LOOSE.more",
             "STRICT.twice", "HELD.field", "HELD.soft", "Held.soft", "HELD.n", "VEC.a", "int(VEC.b)", "QUANT.level",
             "len(LOG)", "COUNTING.calls",
             "OVER.amount", "TAGGED.tag", "TAGGED.info['a']", "tuned.offset", "CLOSED.note", "METHOD()",
             "WVALUES['a'].n", "len(WVALUES)", "WKEYS[HELD]",
             "WREF().n", "int(NUM)", "int(WHOLE)", "int(SMALL.sum())", "SMALL.shape[0]", "int(DEC * 4)",
             "FRAC.numerator", "ODICT['b']", "ODICT.note",
             "DDICT.note", "TALLY.note", "TALLY['a']", "SCAL.item()", "int(SCAL)", "len(Quant.regs)",
             "PREPPED.serial", "Prepped.made_by", "Prepped.share", "TYPED.n", "ALIAS.width", "WIDE.n", "WIDE.k",
             "MARKED.seen", "Marked[1]", "KEPT.n", "KEPT._n", "MODULE.rate", "SO_FAR()", "DUO[0].item()",
             "DUO.max().item()", "int(SIGN)", "len(typing.get_args(typing.Union[int, str]))",
             "MORE.__closure__[0].cell_contents", "MORE.__defaults__[0]"),
            ("Quant.fixed(<int>)", "QUANT.fixed(<int>)", "TONE.shift(<int>)", "Tone(1).shift(<int>)",
             "Tone['HIGH'].value", "HELD.heavy", "tuned(<int>)",
             "tuned(<int>, k=<int>)", "CLOSED(<int>)", "closed(<int>)(<int>)", "safe(<int>, <int>)",
             "safe(LIMIT, SLOTS.a)", "parsed(<str>)", "parsed(NAME)",
             "DDICT[<str>]", "ODICT.get(<str>, <int>)", "WVALUES.get(<str>, HELD).n", "int(NUM * <int>)",
             "int(WHOLE + <int>)", "int(SMALL[0])",
             "int(fractions.Fraction(<int>, 2) + FRAC)", "int(decimal.Decimal(<int>) + DEC)", "Slots(<int>).a",
             "Loose(<int>).more", "Held(<int>).heavy",
             "MASK.sum().item()", "SCAL.item() + <int>", "sum(IDX.tolist())", "getattr(torch.Tensor, 'my_k', <int>)",
             "getattr(<tensor>, 'my_k', <int>)",
             "copy.copy(SLOTS).a", "copy.deepcopy(HELD).n", "pickle.loads(pickle.dumps(LOOSE)).n", "Vec(<int>, 1.0).a",
             "(lambda q, k=<int>: q + k)(<int>)", "Prepped().serial", "Typed[int](<int>).n", "ALIAS(<int>).total()",
             "WIDE._replace(n=<int>).n", "MarkedOnce[<int>]", "Kept(<int>).n", "MODULE.scaled(<int>)",
             "MODULE.chosen(<int>)", "MODULE.scaled(<int>, k=<int>)", "getattr(MODULE, 'rate', <int>)",
             "getattr(MODULE, 'spare', <int>)", "vars(MODULE).get('rate', <int>)", "MORE(<int>)", "MORE(<int>, step=2)",
             "(DUO.tolist()[0] + DUO.tolist()[1])", "(<int> if DUO[0].item() > DUO[1].item() else <int>)",
             "(DUO[0].item() + SCAL.item())", "(<int> if SIGN else <int>)",
             "(<int> if (SCAL.item() > 1) & (DUO[0].item() > 1) else <int>)", "typing.cast(int, <int>)",
             "inspect.getattr_static(KEPT, 'n', <int>) is None", "len(typing.get_type_hints(Wide))",
             "sorted(<ints>, key=lambda q: q * SLOTS.a)[0]", "len(LOG[-3:])", "super(Finer, FINER).total()",
             "super(Disk, DISK).wide()", "super(Both, BOTH).total()", "vars(HELD).get('heavy', <int>)",
             "tuned.__defaults__[0]",
             *_product(CLASSES, CLASS_INTS), *_product(TENSORS, TENSOR_INTS))),
    "float": (("float(NUM)", "VEC.b", "float(DEC)", "float(FRAC)"),
        ("(NUM.item() * <float>)", "float(SMALL[1])", "(<float> / (SLOTS.a or 1))")),
    "str": (("TONE.name", "BOTH.where()", "Both.__mro__[1].__name__", "str(DEC)", "str(FRAC)"),
            ("'|'.join(LOG[-4:])", "repr(SMALL.tolist())", "str(NUM)", "METHOD.__name__", "tuned.__name__",
                *_product(CLASSES, CLASS_STRS))),
    "bool": (("(TONE is Tone.LOW)", "('a' in WVALUES)", "(HELD in WKEYS)", "(WREF() is HELD)",
              "('heavy' in vars(HELD))", "bool(MASK[0])", "(SCAL > 1).item()",
              "(METHOD.__self__ is HELD)", "(FRAC > 1)", "(DEC == 1)", "(NUM > 1)", "bool(MASK.any())",
              "hasattr(torch.Tensor, 'my_k')", "isinstance(SLOTS, Prepped)", "isinstance(TYPED, Typed)",
              "(ALIAS.__origin__ is Typed)", "issubclass(MarkedOnce, Marked)", "bool(SIGN)", "SIGN.item()",
              "(DUO[0] > DUO[1]).item()", "bool((DUO > 1).all())", "hasattr(MODULE, 'spare')"),
             ("(HELD.total == METHOD)", "(CLOSED is closed)", "isinstance(<any>, (Part, Slots))",
              "isinstance(<any>, torch.Tensor)", "(DEC > <int>)",
              "(WHOLE == <int>)", "(copy.copy(HELD) is HELD)", "hasattr(tuned, 'spare')", "('spare' in ODICT)",
              "(TONE in Tone)", "(SCAL == <int>).item()",
              *_product(CLASSES, CLASS_BOOLS))),
    "tensor": (("QUANT", "LOGGED", "ODD", "WEIGHT", "TAGGED", "FINER", "Quant.bias", "SCAL", "MASK"),
               ("<tensor>.sigmoid()", "getattr(<tensor>, 'twice', <tensor>)", "(<tensor> * tuned(<int>))",
                "x[..., MASK]", "x[..., IDX]", "(<tensor> * SCAL.item())",
                "torch.sin(<tensor>)", "(<tensor> * Quant.bits)", "x.sin()", "torch.relu(x)", "(x * NUM.item())",
                "torch.arange(abs(SCAL.item()) + 1)", "(x * float(FRAC))",
                "torch.where(MASK, x, <tensor>)", "x.split([1, 2], -1)[SCAL.item() % 2]",
                "max(<tensors>, key=lambda t: t.dim() * SLOTS.a)",
                "(x + (0 if not MASK.any() else <int>))", "getattr(<tensor>, 'my_f', lambda: BOX)()",
                "x.reshape([-1, *IDX.tolist()[:0]])",
                *_product(TENSORS, TENSOR_TENSORS))),
    "ints": (("IDX.tolist()", "SMALL.tolist()", "Quant.regs", "list(ODICT.values())", "list(WKEYS.values())"),
             ("list(ODICT.values())", "[v.n for v in WVALUES.values()]", "list(Listed)", "[t.value for t in Tone]",
                 "MASK.tolist()", "(SMALL * <int>).tolist()")),
    "fn": (("tuned", "CLOSED", "Quant.fixed"), ("closed(<int>)", "(lambda q, k=SLOTS.a: q + k)",
            "functools.partial(tuned, k=<int>)", "TONE.shift")),
    "table": (("ODICT", "TALLY", "TAGGED.info"), ("dict(ODICT)", "copy.copy(ODICT)", "dict(DDICT)")),
    "any": (("TONE", "SLOTS", "HELD", "NUM", "DEC", "FRAC", "METHOD", "CLOSED", "LOG", "Quant", "Listed", "VEC"),
            ("[HELD.n, HELD.field]", "(DEC * 2)", "(FRAC + 1)", "(NUM * 2)", "(WHOLE + <int>)", "(SMALL + 1)",
             "Slots(<int>, <tensor>)", "Held(<int>)",
             *_product(COPIED, COPY_ANY), *_product(SPECIAL_OBJECTS, SPECIAL_ANY))),
}

STATEMENTS = ("Quant.regs.append(<int>)", "LOG.append(<str>)", "LOG.clear()", "HELD.n = <int>", "HELD.field = <int>",
              "HELD.soft = <int>", "del HELD.soft",
              "vars(HELD).pop('heavy', None)", "<new:int> = HELD.heavy", "SLOTS.a = <int>", "del SLOTS.b",
              "SLOTS.b = <any>", "LOOSE.n = <int>", "STRICT.n += 1",
              "TAGGED.tag = <int>", "TAGGED.info['a'] = <int>", "QUANT.tag = <int>", "VEC.a = <int>", "VEC.b = <float>",
              "ODICT.note = <int>", "TALLY.note += 1",
              "DDICT.note = <int>", "ODICT[<str>] = <int>", "TALLY.update(<lit:str>)", "DDICT[<str>] += 1",
              "tuned.offset = <int>", "tuned.offset += 1",
              "CLOSED.note = <int>", "WVALUES[<str>] = HELD", "WKEYS[LOOSE] = <int>", "WVALUES.pop('b', None)",
              "torch.Tensor.my_k = <int>", "COUNTING.calls = 0",
              "OVER.amount = <int>", "Tone.step = <int>", "SLOTS.__class__ = SlotsTwin", "BOTH.__class__ = Left",
              "SCAL.add_(1)", "SMALL[0] = <int>",
              "<new:tensor> = torch.sin(<tensor>)", "<new:int> = SCAL.item()", "<new:any> = copy.copy(HELD)",
              "<new:int>, *<new:ints> = Listed", "KEPT.n = <int>", "KEPT.extra = <int>", "MODULE.rate = <int>",
              "MODULE.spare = <int>", "del MODULE.spare", "MODULE.rate += 1", "<new:int> = MORE(<int>)",
              "TYPED.n = <int>",
              "PREPPED.serial = <int>", "PREPPED.__class__ = Prepped", "MARKED.__class__ = Marked", "DUO.add_(1)",
              "DUO[0] = <int>", "<new:int>, <new:int> = DUO.tolist()", "Prepped.share = <int>",
              *_product(CLASSES, CLASS_STATEMENTS))

COMPOUNDS = ("with COUNTING:\n    <block>\n    <new:tensor> = <tensor> + 1",
             "with OVER:\n    <block>\n    <new:tensor> = torch.sin(<tensor>)",
             "with OVER, COUNTING:\n    <new:tensor> = torch.relu(<tensor>)",
             "if SCAL.item() > <int>:\n    <block>\nelse:\n    <block>",
             "try:\n    <new:int> = <int> // <int>\nexcept ZeroDivisionError:\n    <block>",
             "try:\n    <new:int> = LIMIT % SLOTS.a\nexcept ZeroDivisionError as <new:err>:\n    <block>",
             "try:\n    <new:float> = 1 / COUNT\nexcept ZeroDivisionError:\n    COUNT += 1\n    <block>",
             "if DUO[0].item() > SCAL.item():\n    <block>\nelse:\n    <block>",
             "if (DUO[0] > 1) & (DUO[1] > 1):\n    <block>", "if SIGN:\n    <block>\nelse:\n    <block>",
             "match WIDE:\n    case Wide(n=found, k=1):\n        <block>\n    case Wide():\n        <block>",
             "for <new:int> in IDX.tolist():\n    <block>", "if MASK.any():\n    <block>",
             "try:\n    <new:int> = ODICT[<str>]\nexcept KeyError as <new:err>:\n    <block>",
             "try:\n    <new:any> = HELD.spare\nexcept AttributeError as <new:err>:\n    <block>",
             "match TONE:\n    case Tone.LOW:\n        <block>\n    case Tone.HIGH:\n        <block>",
             "with torch._C.DisableTorchFunctionSubclass():\n    <block>\n    <new:tensor> = torch.sin(ODD)",
             "match <any>:\n    case Slots(a=found):\n        <block>\n    case Part():\n        <block>\n    case Held(n=1):\n        <block>\n    case _:\n        <block>")

GENTLE = ("LIMIT = int(str(LIMIT))", "NAME = ''.join(list(NAME))", "NUMS = list(NUMS)", "LOG.clear()",
          "HELD.n = <lit:int>", "HELD.field = <lit:int>", "HELD.soft = <lit:int>", "HELD.heavy = <lit:int>",
          "vars(HELD).pop('heavy', None)", "Held.soft.__class__", "vars(Held)['soft'].start = <lit:int>",
          "SLOTS.a = <lit:int>", "SLOTS.b = <lit:int>", "SLOTS = Slots(<lit:int>)", "LOOSE.n = <lit:int>",
          "LOOSE.more = <lit:int>", "STRICT.n = <lit:int>", "HELD = Held(<lit:int>)", "TAGGED.info['a'] = <lit:int>",
          "TAGGED.info = {'a': <lit:int>}", "VEC.a = <lit:int>", "VEC = Vec(<lit:int>, 1.0)", "VEC.b = <lit:float>",
          "ODICT.note = <lit:int>", "DDICT.note = <lit:int>", "TALLY.note = <lit:int>", "ODICT['b'] = <lit:int>",
          "ODICT.move_to_end('a')", "ODICT['new'] = <lit:int>", "DDICT['a'] = <lit:int>", "TALLY.update('b')",
          "tuned.offset = <lit:int>", "tuned.__defaults__ = (<lit:int>,)", "tuned.__kwdefaults__ = {'bias': <lit:int>}",
          "CLOSED = closed(<lit:int>)", "CLOSED.note = <lit:int>", "CLOSED.__defaults__ = (<lit:int>,)",
          "CLOSED.__closure__[0].cell_contents[0] = <lit:int>", "CLOSED.__closure__[0].cell_contents = [<lit:int>]",
          "METHOD = HELD.total", "METHOD = BOTH.total", "METHOD = Held(<lit:int>).total", "WVALUES['a'] = LOOSE",
          "WVALUES['c'] = STRICT", "WKEYS[HELD] = <lit:int>", "WKEYS[LOOSE] = <lit:int>", "WREF = weakref.ref(LOOSE)",
          "NUM = np.float64(<lit:float>)", "NUM = np.float64(float(NUM))", "WHOLE = np.int64(<lit:int>)",
          "SMALL[0] = <lit:int>", "SMALL = np.array([<lit:int>, 2, 3])", "SMALL = SMALL.copy()",
          "DEC = decimal.Decimal('2.50')", "DEC = decimal.Decimal(str(DEC))", "FRAC = fractions.Fraction(<lit:int>, 2)",
          "FRAC = fractions.Fraction(FRAC.numerator, FRAC.denominator)", "TONE = Tone.HIGH", "TONE = Tone.LOW",
          "SCAL = torch.tensor(<lit:int>)", "SCAL.add_(1)", "SCAL = SCAL.clone()", "IDX = torch.tensor([1, 0])",
          "IDX = torch.tensor([2, 2])", "IDX[0] = 1", "MASK = torch.tensor([False, True, True])", "MASK.logical_not_()",
          "MASK = torch.tensor([False, False, False])", "COUNTING.calls = <lit:int>", "OVER.amount = <lit:int>",
          "AROUND = COUNTING", "AROUND = OVER", "AROUND = None", "AROUND = None", "Quant.regs.append(<lit:int>)",
          "Quant.regs = list(Quant.regs)", "Quant.bias = torch.rand(3)", "Odd.table[torch.sin] = torch.tan",
          "Odd.table.pop(torch.sin, None)", "Odd.table[torch.Tensor.sin] = torch.neg",
          "Odd.table[torch.Tensor.add] = torch.mul", "Odd.table[torch.Tensor.size] = lambda *a: 2",
          "ARGS[0] = ARGS[0].as_subclass(Quant)",
          "ARGS[0] = torch.rand(2, 3).as_subclass(Logged)", "ARGS[0] = torch.rand(2, 3).as_subclass(Odd)",
          "Prepared.share = <lit:int>", "PREPPED.serial = <lit:int>", "PREPPED = Prepped()", "TYPED = Typed(<lit:int>)",
          "TYPED = Typed[str](<lit:int>)", "ALIAS = Typed[int]", "WIDE = Wide(<lit:int>)", "WIDE = Wide(*WIDE)",
          "KEPT.n = <lit:int>", "KEPT._n = <lit:int>", "KEPT = Kept(<lit:int>)", "MODULE.rate = <lit:int>",
          "MODULE.scaled.__defaults__ = (<lit:int>,)", "MODULE.scaled = lambda v, k=1: v - k",
          "MODULE.spare = <lit:int>",
          "MORE, SO_FAR = counted(<lit:int>)", "MORE(1)", "MORE.__closure__[0].cell_contents = <lit:int>",
          "MORE.__defaults__ = (<lit:int>,)", "DUO = torch.tensor([<lit:int>, <lit:int>])", "DUO = DUO.flip(0)",
          "DUO.add_(1)", "DUO = DUO.clone()", "SIGN = torch.tensor(False)", "SIGN.logical_not_()",
          "ARGS[0] = torch.rand(2, 3)", "COUNT = 0", "SLOTS.a = 0", "NAME = '12'", "NAME = '7'",
          *_product(CLASSES, CLASS_GENTLE), *_product(TENSORS, TENSOR_GENTLE), *_product(COPIED, COPY_GENTLE))

HARSH = ("Quant.fixed = staticmethod(lambda v: v * 2)", "Quant.fixed = f_dbl", "Quant.level = property(lambda self: 3)",
         "Quant.level = 5", "Quant.regs = NUMS", "Quant.bias = <lit:any>", "QUANT = FINER", "QUANT = TAGGED",
         "Logged.__torch_function__ = Odd.__dict__['__torch_function__']", "del Logged.__torch_function__",
         "Odd.__torch_function__ = torch._C._disabled_torch_function_impl", "del Odd.__torch_function__",
         "Quant.__torch_function__ = classmethod(lambda cls, f, t, a=(), k=None: 5)", "del Quant.__torch_function__",
         "Counting.__torch_function__ = lambda self, f, t, a=(), k=None: f(*a, **(k or {}))",
         "Overriding.amount = property(lambda self: 4)", "OVER = COUNTING", "Registry.size = 5",
         "Registry.size = property(lambda cls: 6)", "Registry.count = property(lambda cls: 5)",
         "Registry.spare = <lit:int>",
         "Registry.__getattr__ = lambda cls, name: 3", "del Registry.__getattr__", "Listed.size = 9",
         "Listed.anything = 2", "Registry.total = lambda cls: 3", "Spy.__getattribute__ = type.__getattribute__",
         "del Spy.__getattribute__",
         "Spy.spare = 3", "Spied.lucky = 1", "Part.area = lambda self: 3", "Disk.area = Part.area",
         "Part.register(Slots)", "Disk.area = property(lambda self: f_inc)", "Tone.shift = lambda self, k: k",
         "Tone.value = 3",
         "Prepared.__call__ = type.__call__", "Prepared.share = property(lambda cls: 3)", "Prepared.made_by = 9",
         "Prepared.__instancecheck__ = type.__instancecheck__", "del Prepared.__instancecheck__", "Prepped.share = 4",
         "Prepared.weight = property(lambda cls: 6)", "PREPPED.__class__ = Typed", "TYPED.__class__ = Marked",
         "ALIAS = Typed", "ALIAS = list[int]", "Typed.__class_getitem__ = classmethod(lambda cls, key: cls)",
         "WIDE = (1, 2)", "Wide.k = 3", "Wide.n = property(lambda self: 5)",
         "Marked.__class_getitem__ = classmethod(lambda cls, key: 4)",
         "MARKED.__class__ = Marked", "MarkedOnce.__bases__ = (Left,)", "MarkedOnce.__bases__ = (Marked,)",
         "Kept.n = 5", "Kept.n = property(lambda self: 7)", "Kept.n = Kept.floor", "KEPT.__class__ = Left",
         "KEPT = HELD",
         "MODULE.rate = <lit:any>", "del MODULE.rate", "MODULE.chosen = f_inc", "MODULE.scaled = MORE",
         "MODULE.__getattr__ = lambda name: 5", "del MODULE.__getattr__",
         "MODULE.__class__ = type('Modded', (types.ModuleType,), {'rate': 8})", "MODULE = HELD",
         "MORE = f_inc", "MORE.__code__ = SO_FAR.__code__", "SO_FAR = lambda: 3",
         "DUO = torch.tensor([1.5, 2.5])", "DUO = torch.tensor([1, 2, 3])", "DUO = [1, 2]", "SIGN = torch.tensor(2)",
         "SIGN = True", "SIGN = torch.tensor([True, False])",
         "Slots.a = 5", "Slots.a = property(lambda self: 5)", "del SLOTS.b", "SLOTS.a = <lit:any>",
         "SLOTS.__class__ = SlotsTwin", "SLOTS = LOOSE", "Loose.__getattr__ = lambda self, name: 1",
         "del Loose.__getattr__",
         "Loose.more = 4", "Loose.__getattribute__ = lambda self, name: object.__getattribute__(self, name)",
         "LOOSE.__class__ = Held", "Strict.twice = 3", "del Strict.__getattribute__",
         "Strict.__getattribute__ = object.__getattribute__", "Strict.__getattr__ = lambda self, name: 4",
         "STRICT.__class__ = Loose", "Held.field = 5", "del Held.field", "Held.soft = <lit:int>",
         "Weak.__set__ = lambda self, o, v: None",
         "Weak.__get__ = lambda self, obj, owner=None: 6", "Field.__get__ = lambda self, obj, owner=None: 8",
         "del Field.__set__", "Held.heavy = property(lambda self: 2)", "Held.heavy = 4",
         "Held.heavy.func = lambda self: 5",
         "HELD.__class__ = Loose", "HELD.__dict__ = {'n': <lit:int>}", "Both.__bases__ = (Right,)",
         "Both.__bases__ = (Right, Left)", "Both.__bases__ = (Left,)", "BOTH.__class__ = Right",
         "BOTH.where = lambda: 'own'",
         "Left.where = lambda self: 'new'", "Both.where = Right.where", "del Both.where",
         "tuned.__code__ = (lambda v, k=2, *, bias=1: v - k).__code__", "tuned = f_inc", "tuned.offset = <lit:any>",
         "del tuned.offset",
         "CLOSED = tuned", "CLOSED = lambda v: v - 1", "METHOD = f_inc", "METHOD = lambda: 3", "WVALUES.clear()",
         "WVALUES.pop('a', None)", "WKEYS.clear()", "WREF = lambda: SLOTS", "NUM = np.float32(1.5)", "NUM = 2.5",
         "NUM = <lit:any>",
         "WHOLE = np.int32(3)", "WHOLE = 3", "SMALL = SMALL.astype(float)", "SMALL = SMALL[::-1]",
         "SMALL = np.zeros((2, 2))", "DEC = FRAC", "DEC = <lit:any>", "FRAC = <lit:any>", "ODICT = dict(ODICT)",
         "Odict.note = 3",
         "del ODICT.note", "Odict.__getitem__ = lambda self, key: 5", "Odict.__missing__ = lambda self, key: 7",
         "Ddict.__missing__ = lambda self, key: 6", "DDICT.default_factory = list", "del DDICT.note", "del TALLY.note",
         "TALLY = collections.Counter('zz')", "SCAL = torch.tensor(True)", "SCAL = torch.tensor(1.5)",
         "SCAL = torch.tensor([1])", "SCAL = 3", "IDX = torch.tensor([1])", "IDX = torch.tensor([True, False, True])",
         "IDX = [0, 1]",
         "MASK = torch.tensor([1, 0, 1])", "MASK = MASK.expand(2, 3)", "WEIGHT = nn.Parameter(torch.rand(3))",
         "WEIGHT.requires_grad_(False)", "safe = lambda a, b: 3", "parsed = len", "VEC = SLOTS", "Vec.a = 5",
         *_product(CLASSES, CLASS_HARSH), *_product(TENSORS, TENSOR_HARSH),
         *(f"{c}.{special}" for c in SPECIAL_CLASSES for special in SPECIAL),
         *(f"del {c}.{special.split()[0]}" for c in SPECIAL_CLASSES for special in SPECIAL),
         *(f"torch.Tensor.{patch}" for patch in PATCHES * 3), *(f"del torch.Tensor.{name}" for name in UNPATCHES * 3))

WRITES = ("LOG.", "regs.append", "HELD.heavy", "DDICT[", "with COUNTING", "with OVER", "SCAL.add_", "COUNTING.calls = ")

#: places whose name alone says nothing about which expressions see them, and where a special method shows
VERBS = frozenset({"torch", "Tensor", "copy", "pickle", "vars", *(s.split()[0] for s in SPECIAL), "__torch_function__",
                   "__getattr__", "__bases__",
                   "__closure__", "cell_contents", "__defaults__", "__kwdefaults__", "__name__", "unread", "AROUND"})
SHOWS_IN = {"__add__": ("sigmoid", "sin"), "__call__": ("total",), "__int__": ("int",), "__iter__": ("list",),
            "__radd__": ("sum",),
            "__torch_function__": ("sin", "relu", "size"), "table": ("ODD", "sin", "relu"), "AROUND": ("sin", "relu"),
            "my_k": ("my_k", "getattr"),
            "__bases__": ("BOTH", "where", "pick", "total"), "spare": ("spare", "hasattr"), "SlotsTwin": ("scale",)}

#: how often a row stands beside one of the plain world
WEIGHT = 2


def _tables() -> dict[str, object]:
    none: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    expressions = {kind: tuple(plain + more * WEIGHT for plain, more in zip(rows, EXPRESSIONS.get(kind, none)))
                   for kind, rows in _generate.EXPRESSIONS.items()}
    statements = _generate.STATEMENTS + STATEMENTS
    return {"EXPRESSIONS": expressions, "STATEMENTS": statements, "COMPOUNDS": _generate.COMPOUNDS + COMPOUNDS * WEIGHT,
            "GENTLE": _generate.GENTLE + GENTLE * WEIGHT, "HARSH": _generate.HARSH + HARSH * WEIGHT,
            "PRELUDE": _generate.PRELUDE + PRELUDE,
            "READING": tuple(t for t in statements if t.startswith(("<new:", "<old:"))),
            "WRITES": _generate.WRITES + WRITES,
            "VERBS": _generate.VERBS | VERBS, "SHOWS_IN": {**_generate.SHOWS_IN, **SHOWS_IN}}


_TABLES = _tables()


def generate_facts(seed: int, size: int) -> Program:
    """A program about facts of objects."""
    with mock.patch.multiple(_generate, **_TABLES):
        return _generate.generate(seed, size)
