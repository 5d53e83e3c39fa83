"""What a user waits for: the first call in a fresh process, with Inductor, beside torch.compile.

    python benchmarks/first_step.py --device cuda --models llama train --layers 16 32
    python benchmarks/first_step.py --device cpu --models llama train bert --layers 8 --json rows.json
    (tools/plots.py draws such rows: docs/figures/first_step.json)

Each row is one model.  For each front end a fresh process makes the first call with an empty cache folder (cold),
and a second fresh process makes it again with the folder that the first one left (warm).  A time begins before the
front end is imported and ends when the result of the first call is there.  On the CPU the CPU time of all
processes counts, elsewhere the wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

FRONT_ENDS = ("framelift", "torch.compile")
MODELS = ("llama", "train", "opt", "bert", "gpt2", "vit", "t5", "conv")


def model_and_call(name: str, layers: int, device: str) -> tuple[Any, Any, bool]:
    """The model, a function that calls it once, and whether that call needs gradients."""
    import torch
    import transformers as hf

    torch.manual_seed(0)
    if name == "conv":
        return small_network(layers, device)
    dtype, width = (torch.bfloat16, 1024) if device == "cuda" else (torch.float32, 128)
    ids = torch.randint(5, 900, (4, 64), device=device)
    sizes = {
        "hidden_size": width,
        "intermediate_size": width * 2,
        "num_attention_heads": 8,
        "num_hidden_layers": layers,
        "vocab_size": 1000,
    }
    if name in ("llama", "train"):
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, num_key_value_heads=4, use_cache=False))
        if name == "train":
            return model.to(device, dtype), lambda f: f(input_ids=ids, labels=ids).loss.backward(), True
    elif name == "opt":
        shape = {"ffn_dim": width * 2, "word_embed_proj_dim": width, "dropout": 0.0}
        model = hf.OPTForCausalLM(hf.OPTConfig(**sizes, **shape, use_cache=False))
        return model.to(device, dtype), lambda f: f(input_ids=ids, labels=ids).loss.backward(), True
    elif name == "bert":
        model = hf.BertModel(hf.BertConfig(**sizes))
    elif name == "gpt2":
        model = hf.GPT2Model(hf.GPT2Config(n_embd=width, n_layer=layers, n_head=8, vocab_size=1000, use_cache=False))
    elif name == "t5":
        shape = {"d_model": width, "d_kv": width // 8, "d_ff": width * 2, "num_heads": 8}
        model = hf.T5Model(hf.T5Config(**shape, num_layers=layers, vocab_size=1000, use_cache=False))
        return model.to(device, dtype).eval(), lambda f: f(input_ids=ids, decoder_input_ids=ids[:, :32]), False
    else:
        del sizes["vocab_size"]
        model = hf.ViTModel(hf.ViTConfig(**sizes, image_size=64, patch_size=8))
        pixels = torch.randn(4, 3, 64, 64, device=device, dtype=dtype)
        return model.to(device, dtype).eval(), lambda f: f(pixel_values=pixels), False
    return model.to(device, dtype).eval(), lambda f: f(input_ids=ids), False


def small_network(layers: int, device: str) -> tuple[Any, Any, bool]:
    """Convolutions of 8 channels with batch norm, and a classifier: a training step."""
    import torch
    from torch import nn

    parts: list[nn.Module] = []
    for number in range(layers):
        parts += [nn.Conv2d(3 if number == 0 else 8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
    model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(8 * 16 * 16, 10)).to(device)
    images, classes = torch.randn(4, 3, 16, 16, device=device), torch.arange(4, device=device)
    return model, lambda f: nn.functional.cross_entropy(f(images), classes).backward(), True


def used() -> float:
    """CPU seconds of this process and of those it waited for."""
    return sum(
        part.ru_utime + part.ru_stime
        for part in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def first_call(front_end: str, name: str, layers: int, device: str) -> dict[str, Any]:
    """The body of a fresh process."""
    import logging
    import warnings

    import torch

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    model, call, grad = model_and_call(name, layers, device)

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    with torch.set_grad_enabled(grad):
        call(model)  # torch's own kernels and libraries are loaded
        wait()
        wall, cpu = time.perf_counter(), used()
        if front_end == "framelift":
            import framelift

            compiled = framelift.compile(model)
        else:
            compiled = torch.compile(model)
        call(compiled)
        wait()
        wall, cpu = time.perf_counter() - wall, used() - cpu
        for _ in range(3):
            call(compiled)
        wait()
        steady = time.perf_counter()
        for _ in range(20):
            call(compiled)
        wait()
        steady = (time.perf_counter() - steady) / 20
    from torch._dynamo.utils import counters

    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0.0
    hits = {
        kind: counters[group][kind]
        for group, kind in (
            ("inductor", "fxgraph_cache_hit"),
            ("inductor", "fxgraph_cache_miss"),
            ("inductor", "fxgraph_cache_bypass"),
            ("aot_autograd", "autograd_cache_hit"),
            ("aot_autograd", "autograd_cache_bypass"),
        )
        if counters[group][kind]
    }
    row = {"wall": wall, "cpu": cpu, "steady_ms": steady * 1e3, "peak_mib": peak, "caches": hits}
    return row if front_end != "framelift" else {**row, **kept_on_disk(compiled)}


def kept_on_disk(compiled: Any) -> dict[str, Any]:
    """What framelift captured and what it loaded, and the time of each phase."""
    import framelift

    stats, phases = framelift.stats(), dict[str, float]()
    for entry in compiled._compiled.entries:
        for phase in entry.info.phases:
            phases[phase.name] = phases.get(phase.name, 0.0) + phase.seconds
    return {**{key: stats[key] for key in ("captures", "loaded", "not_kept")}, "phases": phases}


def fresh(front_end: str, name: str, layers: int, device: str, folder: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", front_end, name, str(layers), device]
    places = {"TORCHINDUCTOR_CACHE_DIR": folder, "FRAMELIFT_CACHE_DIR": os.path.join(folder, "captures")}
    done = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def keep(path: str, row: dict[str, Any]) -> None:
    rows = []
    if os.path.exists(path):
        with open(path) as file:
            rows = json.load(file)
    with open(path, "w") as file:
        json.dump([*rows, row], file, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--models", nargs="+", default=["llama", "train"], choices=MODELS)
    parser.add_argument("--layers", nargs="+", type=int, default=[8])
    parser.add_argument("--json", help="a file for the rows, to which they are added")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        front_end, name, layers, device = options.child
        print(json.dumps(first_call(front_end, name, int(layers), device)))
        return
    what = "cpu" if options.device == "cpu" else "wall"
    print(
        f"{'':16}{'cold':>24}{'warm':>24}{'a later call':>24}{'peak MiB':>20}   ({what} seconds, framelift "
        f"/ torch.compile, ratio)"
    )
    for name in options.models:
        for layers in options.layers:
            rows = {}
            for front_end in FRONT_ENDS:
                with tempfile.TemporaryDirectory() as folder:
                    rows[front_end] = [fresh(front_end, name, layers, options.device, folder) for _ in range(2)]
            ours, theirs = rows["framelift"], rows["torch.compile"]
            cells = [
                f"{ours[i][what]:7.2f} / {theirs[i][what]:6.2f}, {theirs[i][what] / ours[i][what]:4.2f}" for i in (0, 1)
            ]
            cells.append(
                f"{ours[1]['steady_ms']:6.2f} / {theirs[1]['steady_ms']:6.2f} ms, "
                f"{theirs[1]['steady_ms'] / ours[1]['steady_ms']:4.2f}"
            )
            cells.append(f"{ours[0]['peak_mib']:7.0f} / {theirs[0]['peak_mib']:6.0f}")
            print(f"{name} x {layers:<8}" + "".join(f"{cell:>24}" for cell in cells), ours[1]["caches"], flush=True)
            if options.json:
                keep(options.json, {"model": name, "layers": layers, "device": options.device, "unit": what, **rows})


if __name__ == "__main__":
    main()
