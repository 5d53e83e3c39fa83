"""A second process loads what the first one compiled, without Inductor's compiler; and only what is the same graph."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch

PROGRAM = textwrap.dedent("""
    import json, os, sys, torch, framelift

    torch.manual_seed(0)
    COMPILER = "torch._inductor.compile_fx"

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

        def forward(self, x):
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x)))).softmax(-1)

    def hf(name, **sizes):
        import transformers
        config = getattr(transformers, name.removesuffix("Model").removesuffix("ForCausalLM") + "Config")
        return getattr(transformers, name)(config(**sizes)).eval()

    SIZES = dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_hidden_layers=1)
    ids = torch.arange(8).view(1, 8)

    def small(shift=0.0, size=4):
        x = torch.linspace(-1, 1, size) + shift
        return framelift.compile(lambda x: x.sin() + 1)(x), x.sin() + 1

    def training():
        model = torch.nn.Sequential(Block(), Block())
        x = torch.linspace(-1, 1, 64).view(4, 16)
        results = []
        for run in (framelift.compile(model), model):
            model.zero_grad()
            run(x).square().sum().backward()
            results.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        return results

    def llama():
        model = hf("LlamaForCausalLM", **SIZES, num_key_value_heads=1, vocab_size=64, use_cache=False)
        with torch.no_grad():
            return framelift.compile(model)(input_ids=ids).logits, model(input_ids=ids).logits

    def llama_training():
        model = hf("LlamaForCausalLM", **SIZES, num_key_value_heads=1, vocab_size=64, use_cache=False)
        results = []
        for run in (framelift.compile(model), model):
            model.zero_grad()
            run(input_ids=ids, labels=ids).loss.backward()
            results.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        return results

    def bert():
        model = hf("BertModel", **SIZES, vocab_size=64)
        with torch.no_grad():
            return framelift.compile(model)(input_ids=ids)[0], model(input_ids=ids)[0]

    def gpt2():
        model = hf("GPT2Model", n_embd=32, n_layer=1, n_head=2, vocab_size=64, use_cache=False)
        with torch.no_grad():
            return framelift.compile(model)(input_ids=ids)[0], model(input_ids=ids)[0]

    def vit():
        model = hf("ViTModel", **SIZES, image_size=16, patch_size=8)
        pixels = torch.linspace(-1, 1, 768).view(1, 3, 16, 16)
        with torch.no_grad():
            return framelift.compile(model)(pixel_values=pixels)[0], model(pixel_values=pixels)[0]

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

    def random_numbers():
        def program(x):
            return torch.nn.functional.dropout(x, 0.5) + 1
        torch.manual_seed(1)
        first = framelift.compile(program)(torch.ones(64))
        return (first == 1) | (first == 3), torch.ones(64, dtype=torch.bool)

    def autocast():
        layer = torch.nn.Linear(16, 16)
        with torch.no_grad(), torch.autocast("cpu"):
            x = torch.ones(2, 16)
            return framelift.compile(layer)(x), layer(x)

    def checkpoint():
        from torch.utils.checkpoint import checkpoint
        block = Block()
        results = []
        program = lambda x: checkpoint(block, x, use_reentrant=False)
        for run in (framelift.compile(program), program):
            x = torch.ones(2, 16, requires_grad=True)
            run(x).sum().backward()
            results.append(x.grad)
        return results

    def count(program, *args):
        before = COMPILER in sys.modules
        got, wanted = program(*args)
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)
        from torch._dynamo.utils import counters
        rows = {**counters["inductor"], **counters["aot_autograd"]}
        counters.clear()
        kinds = ("fxgraph_cache_hit", "fxgraph_cache_miss", "autograd_cache_hit", "autograd_cache_miss", "autograd_cache_bypass")
        return {kind: rows[kind] for kind in kinds if rows.get(kind)}, before, COMPILER in sys.modules

    exec(os.environ.get("BEFORE", ""))
    print(json.dumps([count(eval(name)) for name in sys.argv[1:]]))
""")

FAMILIES = ("llama", "vit", "llama_training")   # bert and gpt2: benchmarks/first_step.py
OTHERS = ("effects", "checkpoint")   # the last one loads the compiler


def run(folder, *programs, **variables):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), **variables}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *programs], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def missed(counts):
    return [kind for kind in counts if "hit" not in kind]


@pytest.mark.slow
@pytest.mark.parametrize("names", [FAMILIES, OTHERS], ids=["families", "others"])
def test_a_second_process_loads_no_compiler(tmp_path, names):
    run(tmp_path, *names)
    for name, (counts, _, compiler) in zip(names, run(tmp_path, *names), strict=True):
        assert not missed(counts), (name, counts)
        backward = name in ("training", "llama_training", "checkpoint")
        assert counts == {"autograd_cache_hit": 1, "fxgraph_cache_hit": 2 if backward else 1}, name
        assert compiler == (name == "checkpoint"), name   # a body of an operator has no key: that one goes torch's own way


@pytest.fixture(scope="module")
def compiled_small(tmp_path_factory):
    """A cache folder in which a process left the program `small`."""
    folder = tmp_path_factory.mktemp("warm") / "caches"
    run(folder, "small")
    return folder


@pytest.fixture
def folder(compiled_small, tmp_path):
    """A copy of it."""
    return shutil.copytree(compiled_small, tmp_path / "caches")


OTHER_GRAPHS = {
    "sizes": "varied('', size=5)",
    "options": "varied('framelift.compile = __import__(\"functools\").partial(framelift.compile, options={\"epilogue_fusion\": False})')",
    "settings": "varied('import torch._inductor.config\\ntorch._inductor.config.max_fusion_size = 2')",
    "torch's settings": "varied('torch.use_deterministic_algorithms(True)')",
    "threads": "varied('torch.set_num_threads(torch.get_num_threads() + 1)')",
}
VARIED = """
def varied(before, **sizes):
    exec(before, globals())
    framelift.reset()
    return small(**sizes)
"""


@pytest.mark.slow
def test_what_is_another_graph(folder):
    """Sizes, settings and options: each leads to a compile of its own, with the right result.  Other values do not."""
    names = ["lambda: small(shift=1.0)", *[f"lambda: {other}" for other in OTHER_GRAPHS.values()]]
    (counts, _, compiler), *others = run(folder, *names, BEFORE=VARIED)
    assert not compiler and not missed(counts)
    for name, (counts, _, compiler) in zip(OTHER_GRAPHS, others, strict=True):
        assert compiler and "fxgraph_cache_miss" in counts, (name, counts)


BROKEN = {
    "a note that is cut off": "import pathlib\nfor p in pathlib.Path(os.environ['TORCHINDUCTOR_CACHE_DIR'], 'framelift').glob('*/*'): p.write_text('{')",
    "no entries": "import shutil\nshutil.rmtree(os.environ['TORCHINDUCTOR_CACHE_DIR'] + '/aotautograd')",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BROKEN)
def test_what_is_missing_is_compiled_again(folder, what):
    ((_, _, compiler),) = run(folder, "small", BEFORE=BROKEN[what])
    assert compiler


@pytest.mark.slow
def test_caches_that_are_switched_off(folder):
    ((counts, _, compiler),) = run(folder, "small", TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
    assert compiler and "autograd_cache_hit" not in counts


ARTIFACTS = """
import atexit
def save():
    with open(os.environ['ARTIFACTS'], 'wb') as file:
        file.write(torch.compiler.save_cache_artifacts()[0])
atexit.register(save)
"""


@pytest.mark.slow
def test_artifacts(folder, tmp_path):
    """What a process loaded can be saved for another machine, which then compiles nothing."""
    here, file = tmp_path / "here", str(tmp_path / "artifacts")
    ((_, _, compiler),) = run(folder, "small", BEFORE=ARTIFACTS, ARTIFACTS=file)
    assert not compiler
    load = "torch.compiler.load_cache_artifacts(open(os.environ['ARTIFACTS'], 'rb').read())"
    ((counts, _, _),) = run(here, "small", BEFORE=load, ARTIFACTS=file)
    assert counts["autograd_cache_hit"] == 1 and not missed(counts)


def test_functions_that_generated_code_calls():
    """Those that stand in for Inductor's are Inductor's."""
    from torch._inductor.select_algorithm import extern_kernels

    from framelift.backends.generated_code import _EXTERN

    assert {name: getattr(extern_kernels, name) for name in _EXTERN} == _EXTERN
