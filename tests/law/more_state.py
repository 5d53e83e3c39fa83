"""Rows of more.py, state.

Iterators and generators under way, exceptions and groups, numpy, random numbers, collections, tensors as keys, text.

Tables as in grammar.py and mutations.py; `more.py` puts them beside the others.  Letters are taken apart of literal
texts only: any other may show an address, which is another one in each world.
"""

from __future__ import annotations

PRELUDE = """
import re
import numpy as np


def talk(start):
    total = start
    try:
        while True:
            got = yield total + LIMIT
            if got is None:
                got = 1
            total += got
    except KeyError:
        yield -1
    finally:
        OUT.append("closed")


def relay(start):
    result = yield from gen(start)
    yield result


GEN = talk(@@int@@)
next(GEN)
ENUM = iter([(3, @@int@@), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)])
next(ENUM)
ZIP = iter([(1, "a"), (2, "b"), (@@int@@, "c"), (4, "d"), (5, "e")])
MAPPED = iter([@@int@@, 2, 3, 4])
LEFT = filter(None, [0, 1, @@int@@, 3])
CHAINED = iter((1, @@int@@, 3, 4))
SLICED = iter(range(@@int@@, 9))
COUNTER = itertools.count(@@int@@, 2)
ROUND = itertools.cycle([1, @@int@@, 3])
BACK = reversed([1, 2, @@int@@])
PAIRS = iter({"a": 1, "b": @@int@@}.items())
ARR = np.array([1.0, @@float@@, 3.0], dtype=np.float32)
SCALAR = np.float64(@@float@@)
WHOLE = np.arange(3)
NPRNG = np.random.RandomState(@@int@@ + 2)
TALLY = collections.Counter("abca")
CHAIN = collections.ChainMap({"a": @@int@@}, {"b": 2, "a": 9})
OD = collections.OrderedDict([("x", 1), ("y", @@int@@), ("z", 3)])
TKEYS = {BOX: @@int@@, TLIST[0]: 2}
PATTERN = re.compile(r"([a-z])(\\w*)")
TEXT = "alpha be gamma_ray " + @@str@@
"""

EXPRESSIONS = {
    "int": (
        (
            "len(TALLY)",
            "TALLY['a']",
            "CHAIN['a']",
            "OD['y']",
            "len(OD)",
            "TKEYS[BOX]",
            "len(TEXT)",
            "int(SCALAR)",
            "int(WHOLE.sum())",
            "ARR.shape[0]",
            "len(ExceptionGroup('g', [ValueError(1), KeyError('k')]).exceptions)",
            "PATTERN.groups",
            "ARR.ndim",
            "len(CHAIN.maps)",
        ),
        (
            "next(ENUM, (0, 0))[0]",
            "next(ZIP, (0,))[0]",
            "next(MAPPED, <int>)",
            "next(LEFT, <int>)",
            "next(CHAINED, <int>)",
            "next(SLICED, <int>)",
            "next(COUNTER)",
            "next(ROUND)",
            "next(BACK, <int>)",
            "next(PAIRS, ('', 0))[1]",
            "next(GEN)",
            "GEN.send(<int>)",
            "sum(itertools.islice(ROUND, 4))",
            "sum(k for k, v in itertools.islice(ENUM, 2))",
            "sum(CHAINED)",
            "sum(p for p, q in ZIP)",
            "sum(LEFT)",
            "list(MAPPED)[-1]",
            "len(list(relay(<int>)))",
            "next(relay(<int>), 0)",
            "next(enumerate(<ints>, <int>), (0, 0))[0]",
            "sum(v for v in itertools.takewhile(lambda q: q < 3, <ints>))",
            "len(list(itertools.zip_longest(<ints>, <ints>)))",
            "TALLY[<str>]",
            "TALLY.most_common(1)[0][1]",
            "sum(TALLY.values())",
            "(TALLY + collections.Counter(<lit:str>)).total()",
            "CHAIN[<str>]",
            "CHAIN.new_child({'a': <int>})['a']",
            "CHAIN.get(<str>, <int>)",
            "OD.get(<str>, <int>)",
            "TKEYS.get(<tensor>, <int>)",
            "{<tensor>: 1, <tensor>: 2}.get(<tensor>, <int>)",
            "len({<tensor>, <tensor>})",
            "len(PATTERN.findall(TEXT))",
            "PATTERN.match(<str>).end()",
            "TEXT.count(<str>)",
            "TEXT.find(<str>)",
            "len(re.split(r'\\s+', TEXT))",
            "len(TEXT.split())",
            "int(ARR.sum() * 0 + <int>)",
            "int(np.float32(<float>) * 4)",
            "len(ARR)",
            "int(WHOLE[<int> % 3])",
            "np.int64(<int>) + 1",
            "NPRNG.randint(0, 5)",
            "random.randint(1, 9)",
            "int(random.random() * 9)",
            "len(ExceptionGroup('g', [ValueError(1), KeyError('k')]).args)",
            "len(str(ExceptionGroup('g', [ValueError(1), KeyError('k')])))",
            "operator.length_hint(BACK, <int>)",
            "next(iter(reversed(<ints>)), 0)",
            "max(OD.values())",
            "collections.Counter(<ints>)[<int>]",
            "collections.deque(<ints>, maxlen=2)[-1]",
            "len(collections.deque(<ints>, maxlen=<int> % 3 + 1))",
            "next(reversed(OD.values()))",
            "list(OD).index('y')",
            "int(np.array([<int>, 2])[0])",
            "DEQ.count(<int>)",
            "len(collections.UserDict(<table>))",
            "int(format(<int>, 'd'))",
            "ord(<str>[0])",
            "int.from_bytes(bytes([<int> % 9]), 'big')",
        ),
    ),
    "str": (
        ("TEXT", "next(iter(OD))"),
        (
            "TEXT[:<int>]",
            "PATTERN.sub(<str>, TEXT)",
            "PATTERN.match(TEXT)[1]",
            "PATTERN.search(<str>).group()",
            "TEXT.title()[:9]",
            "TEXT.partition(<str>)[2]",
            "'%05.2f|%-4s|' % (<float>, <str>)",
            "format(<float>, '.2f')",
            "f'{<float>:+.1f}{<int>:04d}'",
            "'{0[a]}'.format(<table>)",
            "'{o.n}'.format(o=<obj>)",
            "TEXT.replace(<str>, '_')",
            "<str>.join(['p', 'q'])",
            "<str>.center(7, '*')",
            "str(ExceptionGroup('g', [ValueError(1), KeyError('k')]))",
            "str(dict(TALLY))",
            "repr(OD)",
            "repr(CHAIN.maps)",
            "re.sub(r'[aeiou]', lambda m: m.group().upper(), TEXT)",
            "TEXT.translate({97: <str>})",
            "''.join(sorted(<lit:str>))",
            "''.join(q for p, q in itertools.islice(ZIP, 2))",
            "str(SCALAR)",
            "str(ARR.dtype)",
            "repr(<ints>)",
            "str(<table>)",
            "f'{<ints>!r:>12}'",
            "TEXT[:4].encode().hex()",
            "'|'.join(map(str, <ints>))",
        ),
    ),
    "bool": (
        (
            "('x' in OD)",
            "('b' in CHAIN)",
            "(BOX in TKEYS)",
            "TEXT.startswith('a')",
            "isinstance(ARR, np.ndarray)",
            "(SCALAR > 1)",
            "('q' in TALLY)",
        ),
        (
            "(<tensor> in TKEYS)",
            "bool(PATTERN.fullmatch(<str>))",
            "<str>.isalpha()",
            "(<str> in TEXT)",
            "(OD == collections.OrderedDict(x=1, y=<int>, z=3))",
            "(TALLY == collections.Counter(<lit:str>))",
            "(<str> in CHAIN)",
            "any(v > <int> for v in CHAINED)",
            "(next(ENUM, None) is None)",
            "isinstance(<any>, collections.abc.Iterator)",
            "(hash(<tensor>) == hash(BOX))",
            "(<str> < <str>)",
            "all(p for p in ZIP)",
            "(4 in CHAINED)",
            "isinstance(<any>, collections.abc.Hashable)",
            "(SCALAR == <float>)",
            "(np.float64(<float>) > SCALAR)",
        ),
    ),
    "float": (
        ("float(SCALAR)",),
        (
            "float(ARR.shape[0])",
            "float(np.float32(<float>))",
            "(SCALAR.item() * <int>)",
            "random.Random(<int>).random()",
            "random.uniform(0, 1)",
            "math.fsum([<float>, <float>])",
            "math.dist((0, 0), (<float>, 1))",
        ),
    ),
    "tensor": (
        ("torch.from_numpy(ARR)", "torch.as_tensor(WHOLE)"),
        (
            "torch.from_numpy(ARR * <float>)",
            "torch.tensor(ARR)",
            "torch.as_tensor(np.asarray([1.0, <float>, 2.0], dtype=np.float32))",
            "(<tensor> * SCALAR.item())",
            "torch.from_numpy(np.abs(ARR))",
            "torch.tensor(<ints>[:3] or [1])",
            "(<tensor> + torch.from_numpy(ARR))",
            "next(iter(TKEYS))",
            "max(TKEYS, key=TKEYS.get)",
            "torch.as_tensor(WHOLE[1:]).sum()",
            "(<tensor> * next(COUNTER))",
            "(<tensor> + TALLY['a'])",
        ),
    ),
    "ints": (
        ("list(OD.values())", "list(CHAIN.values())", "sorted(TALLY.values())"),
        (
            "list(itertools.islice(COUNTER, 2))",
            "list(itertools.islice(CHAINED, 2))",
            "list(SLICED)",
            "[v for k, v in ENUM]",
            "list(itertools.accumulate(<ints>))",
            "[a for a, b in itertools.pairwise(<ints>)]",
            "[len(list(g)) for k, g in itertools.groupby(<ints>)]",
            "[m.start() for m in PATTERN.finditer(TEXT)]",
            "sorted(collections.Counter(<ints>).elements())",
            "list(itertools.compress(<ints>, [1, 0, 1]))",
            "[x for x, in itertools.combinations(<ints>, 1)]",
            "ARR.astype(int).tolist()",
            "WHOLE.tolist()",
            "list(itertools.starmap(max, [(<int>, <int>)]))",
            "list(reversed(<ints>))",
            "list(BACK)",
            "list(map(max, <ints>, <ints>))",
        ),
    ),
    "table": (
        ("OD", "TALLY"),
        (
            "dict(CHAIN)",
            "dict(OD)",
            "dict(collections.Counter(<lit:str>))",
            "OD | {'x': <int>}",
            "collections.OrderedDict(sorted(<table>.items()))",
            "copy.copy(OD)",
            "copy.deepcopy(TALLY)",
            "dict.fromkeys(<lit:str>, <int>)",
        ),
    ),
    "any": (
        ("ENUM", "TALLY", "OD", "SCALAR", "ARR", "TKEYS", "CHAIN"),
        (
            "enumerate(<ints>)",
            "zip(<ints>, <lit:str>)",
            "map(<fn>, <ints>)",
            "iter(<ints>)",
            "reversed(<ints>)",
            "itertools.chain(<ints>, [<int>])",
            "itertools.islice(<ints>, 1)",
            "relay(<int>)",
            "ARR * 2",
            "np.array([<int>, 1])",
            "collections.ChainMap(<table>)",
            "collections.Counter(<lit:str>)",
            "ExceptionGroup('e', [ValueError(<int>)])",
            "{<tensor>: <int>}",
            "ExceptionGroup('g', [ValueError(1), KeyError('k')]).split(ValueError)",
            "PATTERN.match(<str>)",
            "itertools.repeat(<int>, 2)",
            "next(ENUM, None)",
            "next(ZIP, None)",
            "np.float32(<float>)",
            "collections.deque(<ints>, 3)",
            "ExceptionGroup('g', [ValueError(1), KeyError('k')]).subgroup(KeyError)",
        ),
    ),
}

STATEMENTS = (
    "TALLY.update(<lit:str>)",
    "TALLY[<str>] += 1",
    "TALLY.subtract({'a': <int>})",
    "del TALLY['a']",
    "CHAIN['a'] = <int>",
    "CHAIN[<str>] = <int>",
    "CHAIN.maps[1]['b'] = <int>",
    "OD.move_to_end('x')",
    "OD['new'] = <int>",
    "OD.popitem(last=False)",
    "OD.pop('y', None)",
    "TKEYS[<tensor>] = <int>",
    "TKEYS.pop(BOX, None)",
    "TEXT = TEXT + <str>",
    "next(ENUM, None)",
    "next(CHAINED, None)",
    "next(COUNTER)",
    "GEN.close()",
    "<new:int> = GEN.send(<int>)",
    "<new:int> = next(COUNTER)",
    "<new:int> = next(ROUND)",
    "<new:any> = next(ZIP, None)",
    "<new:any> = next(ENUM, None)",
    "DEQ.extendleft(<ints>[:2])",
    "DEQ.insert(0, <int>)",
    "DEQ.remove(<int>)",
    "del DEQ[0]",
    "ARR[0] = <float>",
    "ARR += 1",
    "<new:any> = ARR",
    "random.seed(<int> % 1000)",
    "<new:int> = random.randint(0, 9)",
    "<new:any> = random.choice(<ints>)",
    "NPRNG.seed(<int> % 5)",
    "<new:int> = NPRNG.randint(0, 5)",
    "ERR.add_note(<str>)",
    "<new:any> = ExceptionGroup('g', [ValueError(1), KeyError('k')]).subgroup(ValueError)",
    "CHAIN.maps.append({'q': <int>})",
    "<new:str> = TEXT.upper()",
    "OD.update(<table>)",
    "DD.setdefault(<str>, <int>)",
)

COMPOUNDS = (
    "for <fresh:k>, <fresh:v> in ENUM:\n    if <bool>:\n        break\n    COUNT += <same:k>",
    "for <fresh:v> in CHAINED:\n    <block>\n    break",
    "for <fresh:p>, <fresh:q> in ZIP:\n    COUNT += <same:p>",
    (
        "try:\n    raise ExceptionGroup('g', [ValueError(1)])\n"
        "except* ValueError as eg:\n    COUNT += len(eg.exceptions)\n"
        "except* (KeyError, TypeError):\n    COUNT += 10"
    ),
    (
        "try:\n    raise ExceptionGroup('n', [KeyError(<int>), ValueError(<str>)])\nexcept* KeyError as eg:\n"
        "    NOTHING = eg.exceptions[0].args[0]\nexcept* ValueError:\n    COUNT += 1"
    ),
    "try:\n    GEN.throw(KeyError(<int>))\nexcept (KeyError, StopIteration) as <new:err>:\n    <block>",
    (
        "<fresh:g> = talk(<int>)\nnext(<same:g>)\n<new:int> = <same:g>.send(<int>)\n"
        "<new:int> = <same:g>.throw(KeyError('k'))\n<same:g>.close()"
    ),
    (
        "try:\n    try:\n        <block>\n        raise Trouble(<str>)\n    except Trouble as <new:err>:\n"
        "        raise KeyError(<int>) from <old:err>\nexcept KeyError as <fresh:outer>:\n"
        "    NOTHING = str(<same:outer>.__cause__)"
    ),
    (
        "try:\n    try:\n        raise Trouble(<str>)\n    finally:\n        <block>\n"
        "except Trouble as <fresh:outer>:\n    NOTHING = <same:outer>.__context__ is None"
    ),
    "if m := PATTERN.match(<str>):\n    <new:str> = m[1]\n    <block>",
    (
        "def <fresh:inner>():\n    total = 0\n    while True:\n        got = yield total\n"
        "        if got is None:\n            return total\n        total += got\n<fresh:g> = <same:inner>()\n"
        "next(<same:g>)\n<new:int> = <same:g>.send(<int>)\ntry:\n    next(<same:g>)\n"
        "except StopIteration as stop:\n    <new:int> = stop.value"
    ),
    "for <fresh:k> in list(OD):\n    if OD[<same:k>] == <int>:\n        del OD[<same:k>]\n    <block>",
)

GENTLE = (
    "next(ENUM, None)",
    "ENUM = iter([(0, <lit:int>), (1, 2)])",
    "ENUM = iter(((<lit:int>, 1),))",
    "next(ZIP, None)",
    "ZIP = iter([(1, 2), (3, 4)])",
    "MAPPED = iter([<lit:int>, 5])",
    "LEFT = filter(None, [<lit:int>, <lit:int>])",
    "CHAINED = iter((<lit:int>, 2, 3))",
    "next(CHAINED, None)",
    "SLICED = iter([<lit:int>, 7])",
    "next(SLICED, 0)",
    "COUNTER = itertools.count(<lit:int>)",
    "next(COUNTER)",
    "next(ROUND)",
    "ROUND = itertools.cycle([<lit:int>, 2])",
    "BACK = reversed([<lit:int>, 1])",
    "PAIRS = iter({'a': <lit:int>}.items())",
    "GEN = talk(<lit:int>); next(GEN)",
    "GEN.send(<lit:int>)",
    "ARR[0] = <lit:float>",
    "ARR = np.array([<lit:float>, 1.0, 0.0], dtype=np.float32)",
    "SCALAR = np.float64(<lit:float>)",
    "WHOLE = np.arange(<lit:int> % 4 + 1)",
    "NPRNG.seed(3)",
    "TALLY.update('b')",
    "TALLY['a'] = <lit:int>",
    "TALLY = collections.Counter(<lit:str>)",
    "CHAIN['a'] = <lit:int>",
    "CHAIN.maps[1]['b'] = <lit:int>",
    "CHAIN = CHAIN.new_child({'b': <lit:int>})",
    "OD['y'] = <lit:int>",
    "OD.move_to_end('x')",
    "OD.popitem()",
    "TKEYS[BOX] = <lit:int>",
    "TKEYS = {BOX: <lit:int>}",
    "PATTERN = re.compile('(.)b?')",
    "TEXT = 'zeta ' + <lit:str>",
    "TEXT += <lit:str>",
    "random.seed(<lit:int>)",
    "DEQ.appendleft(<lit:int>)",
    "DEQ = collections.deque([1, <lit:int>, 3], maxlen=3)",
)

HARSH = (
    "ENUM = iter([(1, 2)])",
    "ENUM = ZIP",
    "ZIP = iter(())",
    "ZIP = <lit:any>",
    "MAPPED = iter(NUMS)",
    "LEFT = MAPPED",
    "CHAINED = iter(NUMS)",
    "CHAINED = ITER",
    "SLICED = iter(range(3))",
    "COUNTER = itertools.count(0.5)",
    "COUNTER = ROUND",
    "ROUND = itertools.repeat(4)",
    "BACK = reversed(NUMS)",
    "PAIRS = iter([('a', 1)])",
    "GEN.close()",
    "GEN = iter(NUMS)",
    "GEN = gen(3)",
    "ARR = ARR.astype(np.float64)",
    "ARR = np.zeros((2, 3), dtype=np.float32)",
    "ARR = BOX",
    "ARR = ARR[::2]",
    "SCALAR = <lit:any>",
    "SCALAR = np.float32(0.5)",
    "WHOLE = NUMS",
    "TALLY = dict(TALLY)",
    "TALLY = collections.Counter()",
    "CHAIN = dict(CHAIN)",
    "CHAIN.maps.reverse()",
    "CHAIN.maps[0] = TABLE",
    "CHAIN = collections.ChainMap()",
    "OD = dict(OD)",
    "OD.clear()",
    "OD['y'] = <lit:any>",
    "TKEYS = {}",
    "TKEYS.clear()",
    "TKEYS[TLIST[0]] = <lit:any>",
    "PATTERN = re.compile('x')",
    "PATTERN = <lit:any>",
    "TEXT = <lit:any>",
    "TEXT = ''",
    "talk = gen",
    "gen.__code__ = (lambda stop: (yield 9)).__code__",
    "NPRNG = RNG",
)

WRITES = (
    "next(",
    "GEN.",
    "ENUM",
    "ZIP",
    "MAPPED",
    "LEFT",
    "CHAINED",
    "SLICED",
    "COUNTER",
    "ROUND",
    "BACK",
    "PAIRS",
    "talk(",
    "random.",
    "NPRNG",
)
