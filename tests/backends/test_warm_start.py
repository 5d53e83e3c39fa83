"""A second process loads what the first one compiled, without Inductor's compiler; and only what is the same graph.

Processes that compile take long.  So there are four in all, and each runs all programs that can go together: the first
one compiles, the second one loads, the third one meets damaged files and other graphs,
the fourth one is another machine.
"""

import json
import os
import subprocess
import sys
import textwrap
import types

import pytest
import torch

PROGRAMS = textwrap.dedent("""
    import json, os, sys, torch, framelift

    torch.manual_seed(0)
    COMPILER = "torch._inductor.compile_fx"

    def hf(name, **sizes):
        import transformers
        config = getattr(transformers, name.removesuffix("Model").removesuffix("ForCausalLM") + "Config")
        return getattr(transformers, name)(config(**sizes)).eval()

    SIZES = dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_hidden_layers=1)
    ids = torch.arange(8).view(1, 8)

    def gradients(model, call):
        results = []
        for run in (framelift.compile(model), model):
            model.zero_grad()
            call(run).backward()
            results.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        return results

    def small(shift=0.0, size=4):
        x = torch.linspace(-1, 1, size) + shift
        return framelift.compile(lambda x: x.sin() + 1)(x), x.sin() + 1

    def product():   # no kernel of its own
        x = torch.arange(4.0).view(2, 2)
        return framelift.compile(lambda x: x @ x)(x), x @ x

    def out_of_range():   # an error of the program reaches it
        table, where = torch.arange(8.0).view(4, 2), torch.tensor([1, 7])
        run = framelift.compile(lambda table, where: table[where] + 1)
        good = run(table, where - where), table[where - where] + 1
        try:
            run(table, where)
        except (IndexError, RuntimeError):
            return good
        raise AssertionError("no error")

    def llama_training():
        model = hf("LlamaForCausalLM", **SIZES, num_key_value_heads=1, vocab_size=64, use_cache=False)
        return gradients(model, lambda run: run(input_ids=ids, labels=ids).loss)

    def vit():
        model = hf("ViTModel", **SIZES, image_size=16, patch_size=8)
        pixels = torch.linspace(-1, 1, 768).view(1, 3, 16, 16)
        with torch.no_grad():
            return framelift.compile(model)(pixel_values=pixels)[0], model(pixel_values=pixels)[0]

    def layers():   # equal ones are one subgraph, which the caches must know
        parts = lambda: (torch.nn.Linear(4, 4), torch.nn.ReLU())
        layer = lambda: torch.nn.Sequential(*[part for _ in range(4) for part in parts()])
        blocks = torch.nn.Sequential(*[layer() for _ in range(3)])
        return gradients(blocks, lambda run: run(torch.ones(2, 4)).sum())

    def effects():   # inputs that are written to, outputs that are views, two outputs of one tensor
        def program(x, y):
            x.mul_(2)
            z = x + y
            return z, z[1:], y.view(-1), x
        results = []
        for run in (framelift.compile(program), program):
            x, y = torch.ones(3, 2), torch.arange(6.0).view(3, 2)
            got = run(x, y)
            same = [float(got[2].data_ptr() == y.data_ptr()), float(got[3] is x)]
            results.append(torch.cat([*(part.flatten() for part in got), x.flatten(), torch.tensor(same)]))
        return results

    def around_a_break():   # method calls: the caches must see that their receivers are tensors
        def program(x):
            y = x.add(1).view(-1)
            framelift.graph_break()
            return y.mul(3).sum()
        return framelift.compile(program)(torch.zeros(5)), program(torch.zeros(5))

    def shared_memory():   # one code, but one of the calls gives the same memory twice
        def program(a, b):
            a.add_(1)
            return a * b
        results = []
        for run in (framelift.compile(program), program):
            a, c = torch.ones(6), torch.ones(6)
            results.append(torch.cat([run(a, a.view(2, 3).view(6)), run(c, torch.ones(6))]))
        return results

    def default_dtype():   # the graph has the same code
        results = []
        for dtype in (torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            results.append(framelift.compile(lambda: torch.ones(3) + 1)())
        torch.set_default_dtype(torch.float32)
        assert [one.dtype for one in results] == [torch.float32, torch.float64]
        return results[0], torch.ones(3) + 1

    def sizes():   # static, then dynamic
        program = lambda x: (x * x.shape[0]).cos().sum()
        f = framelift.compile(program)
        return [torch.stack([run(torch.ones(n)) for n in (4, 5, 6)]) for run in (f, program)]

    def checkpoint():
        from torch.utils.checkpoint import checkpoint
        layer = torch.nn.Linear(16, 16)
        results = []
        program = lambda x: checkpoint(lambda x: layer(x).relu(), x, use_reentrant=False)
        for run in (framelift.compile(program), program):
            x = torch.ones(2, 16, requires_grad=True)
            run(x).sum().backward()
            results.append(x.grad)
        return results

    def changing_float():   # a number that is an input of the graph
        program = lambda x, rate: torch.add(x, x, alpha=rate)
        f = framelift.compile(program)
        return [torch.stack([run(torch.ones(4), rate) for rate in (0.25, 0.5, 0.75)]) for run in (f, program)]

    def assumed_float():   # one formula for weights below a half and one for others: the compiler assumes which
        program = lambda x, y, weight: torch.lerp(x, y, weight)
        f = framelift.compile(program)
        weights = (0.1, 0.2, 0.3) if "ARTIFACTS" not in os.environ else (0.9, 0.8, 0.7)
        given = torch.zeros(4), torch.full((4,), 3.0)
        return [torch.stack([run(*given, one) for one in weights]) for run in (f, program)]

    KINDS = ("fxgraph_cache_hit", "fxgraph_cache_miss", "fxgraph_cache_bypass", "autograd_cache_hit",
             "autograd_cache_miss",
             "autograd_cache_bypass")

    def count(program, *args, **kwargs):
        got, wanted = program(*args, **kwargs)
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)
        from torch._dynamo.utils import counters
        rows = {**counters["inductor"], **counters["aot_autograd"]}
        counters.clear()
        return {kind: rows[kind] for kind in KINDS if rows.get(kind)}, COMPILER in sys.modules
""")

#: program -> hits in Inductor's cache and in AOTAutograd's
LOADED = {
    "small": (1, 1),
    "product": (1, 1),
    "out_of_range": (1, 1),
    "vit": (1, 1),
    "llama_training": (2, 1),
    "layers": (2, 1),
    "effects": (1, 1),
    "around_a_break": (2, 2),
    "shared_memory": (2, 2),
    "default_dtype": (2, 2),
}
#: those that go torch's own way through the caches: bodies of operators, symbolic sizes, symbolic floats
WITH_COMPILER = {"checkpoint": (2, 1), "sizes": (2, 2), "changing_float": (2, 2)}
#: what a compiler assumes about a float is not kept
COMPILED_AGAIN = {"assumed_float"}
if torch.torch_version.TorchVersion(torch.__version__) < (2, 12):
    del LOADED["out_of_range"]  # there a check that fails in a kernel ends the process, with torch.compile too
ALL = [*LOADED, *WITH_COMPILER, *COMPILED_AGAIN]


def run(folder, body, **variables):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), **variables}
    code = PROGRAMS + textwrap.dedent(body)
    command = [sys.executable, "-c", code, *ALL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


EACH = """
    print(json.dumps({name: count(eval(name)) for name in sys.argv[1:]}))
    if "ARTIFACTS" in os.environ:
        with open(os.environ["ARTIFACTS"], "wb") as file:
            file.write(torch.compiler.save_cache_artifacts()[0])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A cache folder in which a process left all programs."""
    folder = tmp_path_factory.mktemp("warm") / "caches"
    run(folder, EACH)
    return folder


@pytest.mark.slow
def test_other_processes(folder, tmp_path):
    """A second process compiles nothing, and what it loaded can be saved for another machine."""
    artifacts = str(tmp_path / "artifacts")
    for name, (counts, compiler) in run(folder, EACH, ARTIFACTS=artifacts).items():
        if name in COMPILED_AGAIN:
            assert "autograd_cache_hit" not in counts and "fxgraph_cache_miss" in counts, counts
            continue
        inductor, autograd = (LOADED | WITH_COMPILER)[name]
        assert counts == {"autograd_cache_hit": autograd, "fxgraph_cache_hit": inductor}, name
        assert compiler == (name in WITH_COMPILER), name
    load = """
        torch.compiler.load_cache_artifacts(open(os.environ["ARTIFACTS"], "rb").read())
        print(json.dumps(count(product)))
    """
    counts, _ = run(tmp_path / "there", load, ARTIFACTS=artifacts)
    assert counts == {"autograd_cache_hit": 1, "fxgraph_cache_hit": 1}


DAMAGED = """
    import pathlib, pickle, shutil, subprocess
    from framelift.backends import warm_start

    caches = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    noted = []
    load = warm_start.load
    def loading(key, *args):
        found = load(key, *args)
        noted.append((key, found is not None))
        return found
    warm_start.load = loading

    def again(**sizes):
        framelift.reset()
        counts, _ = count(small, **sizes)
        return noted[-1][1], counts

    results = {"as it is": again(shift=1.0)}
    key = noted[-1][0]
    note = caches / "framelift" / key[:2] / f"{key}.note"
    said = lambda: json.loads(note.read_bytes().split(b"\\n", 2)[2])

    def flipped(path):   # a file with another byte in its middle, of another inode
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.unlink()
        path.write_bytes(content)

    def cut(path):
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[:len(content) // 2])

    def library():
        ((place, _),) = next(iter(said()["kernels"].values())).values()
        return caches / place

    def of(key):
        return caches / said()["entries"][key][0]

    def entry():
        return of(said()["entry"])

    def graph():
        return of(next(iter(said()["kernels"])))

    def generated():
        name = sys.modules["torch._inductor.codecache"].PyCodeCache.modules[-1].__file__
        return pathlib.Path(name)

    for what in (lambda: note, entry, graph, library, generated):
        for damage in (cut, flipped, pathlib.Path.unlink):
            path = what()
            damage(path)
            sys.modules["torch._inductor.codecache"].CppPythonBindingsCodeCache.cache.clear()   # as in a new process
            first = again()
            results[f"{damage.__name__} {what.__name__}"] = *first, again()

    # What runs leaves a folder.
    ran = caches.parent / "ran"

    class Evil:
        guards_expr = ""

        def __reduce__(self):
            return os.mkdir, (str(ran),)

    evil = caches.parent / "evil.so"
    source = f'#include <sys/stat.h>\\n__attribute__((constructor)) static void run() {{ mkdir("{ran}", 0777); }}'
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(evil)], input=source.encode(), check=True)

    def as_before():   # a note as it was: plain JSON that names a library by its path, with the right digest
        import hashlib
        kernels = {graph: {name: [str(evil), "c" * 40, hashlib.sha256(evil.read_bytes()).hexdigest()] for name in named}
                   for graph, named in said()["kernels"].items()}
        note.write_text(json.dumps({**said(), "kernels": kernels}))

    def further_files():
        for path in (entry(), graph()):
            for name in ("0", "zzz"):
                (path.parent / name).write_bytes(pickle.dumps(Evil()))

    def without_them():
        for path in (entry(), graph()):
            for name in ("0", "zzz"):
                (path.parent / name).unlink()

    def linked():
        path = library()
        path.unlink()
        path.symlink_to(evil)

    again()
    attacks = {}
    for attack in (as_before, further_files, without_them, linked):
        attack()
        sys.modules["torch._inductor.codecache"].CppPythonBindingsCodeCache.cache.clear()   # as in a new process
        first = again()
        attacks[attack.__name__] = ran.exists(), first[0], again()[0]
    results["attacks"] = attacks

    import torch._inductor.config
    OTHER = {
        "sizes": lambda: again(size=5),
        "settings": lambda: setattr(torch._inductor.config, "max_fusion_size", 2),
        "torch's settings": lambda: torch.use_deterministic_algorithms(True),
        "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
        "caches off": lambda: setattr(torch._inductor.config, "force_disable_caches", True),
    }
    for what, change in OTHER.items():
        results[what] = change() or again()
    print(json.dumps(results))
"""


@pytest.mark.slow
def test_what_is_damaged_or_another_graph_is_compiled(folder):
    results = run(folder, DAMAGED)
    hits = {"autograd_cache_hit": 1, "fxgraph_cache_hit": 1}
    assert results.pop("as it is") == [True, hits]
    assert results.pop("attacks") == {
        "as_before": [False, False, True],
        "further_files": [False, True, True],
        "without_them": [False, True, True],
        "linked": [False, False, True],
    }  # whether what an attacker wrote ran, whether the graph was loaded, and whether it is at the next start
    others = {what: results.pop(what) for what in ("sizes", "settings", "torch's settings", "threads", "caches off")}
    assert len(results) == 15
    for what, (loaded, _, (later, counts)) in results.items():
        assert loaded == (what.endswith("generated")), what  # the code is a part of the entry
        assert later and counts == hits, what
    assert "autograd_cache_hit" not in others.pop("caches off")[1]
    for what, (loaded, counts) in others.items():
        # torch 2.11 does not count the threads among the settings of a compiled graph
        assert not loaded and ("fxgraph_cache_miss" in counts or what == "threads"), (what, counts)


def test_functions_that_generated_code_calls():
    """Those that stand in for Inductor's are Inductor's."""
    from torch._inductor.select_algorithm import extern_kernels

    from framelift.backends.generated_code import _EXTERN

    assert {name: getattr(extern_kernels, name) for name in _EXTERN} == _EXTERN


def test_operators_in_comments_of_generated_code_are_not_looked_up():
    """Comments on kernels name operators that Inductor's compiler alone registers."""
    from framelift.backends.generated_code import run_generated

    source = "    # %one = call_function[target=torch.ops.prims.no_such_operator.default](args = (%x, -1))\n"
    assert run_generated("one.py", source + "answer = 42\n", "one", {"more": 1}, None).answer == 42
    with pytest.raises(AttributeError, match="no_such_operator"):
        run_generated("two.py", source + "called = lambda x: torch.ops.prims.no_such_operator(x)\n", "two", {}, None)


def test_loaded_code_starts_no_processes_for_kernels():
    from framelift.backends.generated_code import _Compile

    assert _Compile(None).triton.__self__.use_process_pool() is False


@pytest.mark.parametrize("own", [None, "/somewhere/else"])
def test_launchers_are_kept_where_later_processes_look(own, monkeypatch):
    from torch._inductor.runtime.runtime_utils import triton_cache_dir

    from framelift.backends.triton_launchers import launchers_beside_kernels

    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    beside = triton_cache_dir(1)
    if own is not None:
        monkeypatch.setenv("TRITON_CACHE_DIR", own)
    on_cuda = types.SimpleNamespace(is_cuda=True, device=torch.device("cuda", 1))
    with launchers_beside_kernels([3, torch.ones(1), on_cuda]):
        assert os.environ["TRITON_CACHE_DIR"] == (own or beside)
    assert os.environ.get("TRITON_CACHE_DIR") == own
    with launchers_beside_kernels([torch.ones(1)]):
        assert os.environ.get("TRITON_CACHE_DIR") == own
