"""The disk caches of AOTAutograd and Inductor: a second process with the same cache folder compiles nothing again."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent("""
    import json, sys, torch, framelift
    from torch._dynamo.utils import counters

    torch.manual_seed(0)

    def count(program):
        counters.clear()
        results = program()
        rows = {**counters["inductor"], **counters["aot_autograd"]}
        kinds = ("fxgraph_cache_hit", "fxgraph_cache_miss", "fxgraph_cache_bypass", "autograd_cache_hit", "autograd_cache_miss",
                 "autograd_cache_bypass")
        return {kind: rows[kind] for kind in kinds if rows.get(kind)}, results

    def methods():   # method calls: the caches must see that their receivers are tensors
        f = framelift.compile(lambda x: x.add(1).mul(2).view(-1).sum())
        return f(torch.ones(3, 4)).item()

    def training():
        layer = torch.nn.Linear(4, 4)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.fill_(0.5)
        framelift.compile(lambda x: layer(x).relu().sum())(torch.ones(2, 4)).backward()
        return layer.weight.grad.sum().item()

    def sizes():   # static, then dynamic
        f = framelift.compile(lambda x: (x * x.shape[0]).cos().sum())
        return [round(f(torch.ones(n)).item(), 4) for n in (4, 5, 6)]

    def around_a_break():
        def program(x):
            y = x.sin() + 1
            framelift.graph_break()
            return (y * 3).exp().sum()
        return framelift.compile(program)(torch.zeros(5)).item()

    def shared_memory():   # one code, but one of the calls gives the same memory twice
        def program(a, b):
            a.add_(1)
            return a * b
        results = []
        for shared in (True, False):
            a = torch.ones(6)
            f = framelift.compile(program)
            results.append(f(a, a.view(2, 3).view(6) if shared else torch.ones(6)).sum().item())
        return results

    def default_dtype():   # the graph has the same code
        results = []
        for dtype in (torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            results.append(str(framelift.compile(lambda: torch.ones(3) + 1)().dtype))
        torch.set_default_dtype(torch.float32)
        return results

    def layers():   # equal ones are one subgraph, which the caches must know
        blocks = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4),
                                                           torch.nn.Tanh(), torch.nn.Linear(4, 4), torch.nn.Sigmoid(), torch.nn.Linear(4, 4))
                                       for _ in range(4)])
        x = torch.ones(2, 4, requires_grad=True)
        framelift.compile(lambda x: blocks(x).sum())(x).backward()
        with torch.no_grad():
            return [round(framelift.compile(lambda x: blocks(x).sum())(x).item(), 4), round(x.grad.sum().item(), 4)]

    programs = (methods, training, sizes, around_a_break, shared_memory, default_dtype, layers)
    wanted = sys.argv[1:]
    print(json.dumps({program.__name__: count(program) for program in programs if not wanted or program.__name__ in wanted}))
""")

RESULTS = {"methods": 48.0, "training": 32.0, "around_a_break": pytest.approx(100.4277, abs=1e-3), "shared_memory": [24.0, 12.0],
           "default_dtype": ["torch.float32", "torch.float64"]}


def run(folder: str, *programs: str, **variables: str) -> dict:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, **variables}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *programs], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.slow
def test_a_second_process_compiles_nothing_again(tmp_path):
    first, second = run(str(tmp_path)), run(str(tmp_path))
    for name, (counts, results) in second.items():
        assert results == first[name][1] and results == RESULTS.get(name, results)
        assert not [kind for kind in counts if "miss" in kind or "bypass" in kind], (name, counts)
        assert counts["autograd_cache_hit"] >= 1, (name, counts)


@pytest.mark.slow
def test_caches_that_are_switched_off_stay_off(tmp_path):
    (counts, _) = run(str(tmp_path), "methods", TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")["methods"]
    assert not [kind for kind in counts if "hit" in kind]
