"""Steps after the first: a Llama with Inductor, compiled by framelift and by torch.compile, in one process by turns.

    python benchmarks/steady.py --layers 16 --device cuda
    python benchmarks/steady.py --layers 2 --device cpu --batch 1 --length 64 --rounds 3

Each front end has its own copy of the model.  A round is a few steps of one front end and as many of the other.  The
table shows the best and the median round of each; the ratio is torch.compile's time by framelift's.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

STEPS = 10


def model_of(options: argparse.Namespace) -> torch.nn.Module:
    import transformers as hf

    torch.manual_seed(0)
    config = hf.LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_attention_heads=16,
        num_key_value_heads=16,
        num_hidden_layers=options.layers,
        vocab_size=32000,
        use_cache=False,
    )
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    return hf.LlamaForCausalLM(config).to(options.device, dtype)


def step_of(compiled: Any, ids: torch.Tensor, train: bool) -> Callable[[], None]:
    def forward() -> None:
        with torch.no_grad():
            compiled(input_ids=ids)

    def training() -> None:
        compiled(input_ids=ids, labels=ids).loss.backward()
        compiled.zero_grad(set_to_none=True)

    return training if train else forward


def seconds(step: Callable[[], None], device: str) -> float:
    """Of one step: wall time on a GPU, CPU time elsewhere, where other processes may be busy."""
    clock, wait = (time.perf_counter, torch.cuda.synchronize) if device == "cuda" else (time.process_time, bool)
    wait()
    start = clock()
    for _ in range(STEPS):
        step()
    wait()
    return (clock() - start) / STEPS


def measure(options: argparse.Namespace, train: bool, front_ends: dict[str, Callable[[Any], Any]]) -> None:
    model = model_of(options).train(train)
    ids = torch.randint(5, 900, (options.batch, options.length), device=options.device)
    steps = {name: step_of(compile_(copy.deepcopy(model)), ids, train) for name, compile_ in front_ends.items()}
    for step in steps.values():
        seconds(step, options.device)
    rounds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(options.rounds):
        for name in list(steps) if turn % 2 else list(steps)[::-1]:
            rounds[name].append(seconds(steps[name], options.device) * 1e3)
    for summary in (min, statistics.median):
        times = {name: summary(found) for name, found in rounds.items()}
        base = times["torch.compile"]
        cells = "  ".join(f"{name} {found:.3f} ({base / found:.3f})" for name, found in times.items())
        print(f"{'training' if train else 'forward':9}{summary.__name__:7} ms a step: {cells}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=("forward", "training"))
    parser.add_argument("--repeated-layers", default="auto", choices=("auto", "off", "always"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import framelift

    framelift.config.repeated_layers = options.repeated_layers
    front_ends = {"framelift": framelift.compile, "torch.compile": torch.compile}
    for train in (False, True):
        if options.only != ("forward" if train else "training"):
            measure(options, train, front_ends)


if __name__ == "__main__":
    main()
