"""Steady speed of a 12-layer Llama of width 1024 under Inductor on CUDA: framelift beside TorchDynamo, by turns in one
process.

    python benchmarks/tokens.py [--batch 8] [--length 512] [--rounds 9]

Prints tokens per second of a forward pass and of a training step, and framelift's share of TorchDynamo's speed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import framelift


def llama(layers: int, device: str, **options: Any) -> Any:
    """A Llama of width 1024 with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_attention_heads=16,
        num_key_value_heads=16,
        num_hidden_layers=layers,
        vocab_size=32000,
        **options,
    )
    return LlamaForCausalLM(config).to(device, torch.bfloat16)


def forward(run: Any, ids: torch.Tensor) -> None:
    with torch.no_grad():
        run(input_ids=ids)


def training(run: Any, ids: torch.Tensor) -> None:
    run(input_ids=ids, labels=ids).loss.backward()


def seconds(job: Callable[[Any, torch.Tensor], None], run: Any, ids: torch.Tensor, calls: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        job(run, ids)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("batch", 8), ("length", 512), ("rounds", 9), ("calls", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    ids = torch.randint(0, 32000, (options.batch, options.length), device="cuda")
    model = llama(12, "cuda", use_cache=False)
    ends = {"framelift": framelift.compile(model), "torch.compile": torch.compile(model)}
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, bf16, batch {options.batch} x {options.length}")
    for title, job in (("forward", forward), ("forward and backward", training)):
        for run in ends.values():
            for _ in range(3):
                job(run, ids)
        times: dict[str, list[float]] = {name: [] for name in ends}
        for _ in range(options.rounds):
            for name, run in ends.items():
                times[name].append(seconds(job, run, ids, options.calls))
        speed = {name: ids.numel() / statistics.median(found) for name, found in times.items()}
        print(
            f"{title}: "
            + ", ".join(f"{name} {value:,.0f} tokens/s" for name, value in speed.items())
            + f", framelift's share {speed['framelift'] / speed['torch.compile']:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
