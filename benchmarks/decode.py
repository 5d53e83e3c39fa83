"""Time per token with transformers' static cache: framelift beside TorchDynamo, by turns in one process.

    python benchmarks/decode.py [--device cuda] [--mode reduce-overhead] [--layers 12] [--tokens 64] [--rounds 9]

Each front end has its own cache and decodes the same tokens greedily after the same prompt.  A round is one pass over
all tokens; the host's share is the time until a step's call returned, of the time until its result was there.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from tokens import llama

import framelift


class Decoder:
    """One front end's way through the loop: `run` is the compiled model."""

    def __init__(self, model: Any, run: Callable[..., Any], prompt: torch.Tensor, tokens: int) -> None:
        from transformers import StaticCache

        self.model, self.run, self.prompt, self.tokens = model, run, prompt, tokens
        self.wait = torch.cuda.synchronize if prompt.is_cuda else lambda: None
        self.cache = StaticCache(config=model.config, max_cache_len=prompt.shape[1] + tokens)

    @torch.no_grad()
    def decode(self) -> tuple[list[int], float, float]:
        """One pass: (tokens, seconds for each token, seconds of them until the call returned)."""
        self.cache.reset()
        length = self.prompt.shape[1]
        position = torch.arange(length, device=self.prompt.device)
        found = self._prefill(position)
        self.wait()
        answer, total, host = [], 0.0, 0.0
        for step in range(self.tokens - 1):
            position = torch.tensor([[length + step]], device=self.prompt.device)
            self.wait()
            start = time.perf_counter()
            logits = self.run(found, position_ids=position, past_key_values=self.cache, use_cache=True).logits
            found = logits[:, -1:].argmax(-1)
            returned = time.perf_counter()
            self.wait()
            total += time.perf_counter() - start
            host += returned - start
            answer.append(int(found[0]))
        return answer, total / len(answer), host / len(answer)

    def _prefill(self, position: torch.Tensor) -> torch.Tensor:
        answer = self.model(self.prompt, position_ids=position[None], past_key_values=self.cache, use_cache=True)
        return answer.logits[:, -1:].argmax(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--mode", default="reduce-overhead")
    for name, default in (("layers", 12), ("tokens", 64), ("prompt", 32), ("rounds", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    model = llama(options.layers, options.device).eval()
    prompt = torch.randint(0, 32000, (1, options.prompt), device=options.device)
    ends = {
        name: Decoder(model, compile(model.forward, mode=options.mode, fullgraph=True), prompt, options.tokens)
        for name, compile in (("framelift", framelift.compile), ("torch.compile", torch.compile))
    }
    for name, end in ends.items():  # the first passes compile, and record CUDA graphs
        start = time.perf_counter()
        end.decode()
        print(f"{name}: first pass {time.perf_counter() - start:.1f} s", flush=True)
    for end in ends.values():  # TorchDynamo's first capture changes torch.nn.Module, which costs framelift a recompile
        end.decode()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ends}
    tokens: dict[str, list[int]] = {}
    for _ in range(options.rounds):
        for name, end in ends.items():
            tokens[name], total, host = end.decode()
            times[name].append((total, host))
    print(
        f"torch {torch.__version__}, {options.device}, {options.mode}, {options.layers} layers, {options.tokens} tokens"
    )
    for name, rounds in times.items():
        total, host = (statistics.median(part) for part in zip(*rounds))
        shown = " ".join(f"{each * 1e6:.0f}" for each, _ in rounds)
        print(f"{name}: {total * 1e6:.0f} us for each token (rounds: {shown}); the host {host * 1e6:.0f} us")
    ratios = sorted(b[0] / a[0] for a, b in zip(times["framelift"], times["torch.compile"]))
    print(f"torch.compile's time by framelift's: median {statistics.median(ratios):.3f}, worst round {ratios[0]:.3f}")
    print(f"same tokens: {tokens['framelift'] == tokens['torch.compile']}")


if __name__ == "__main__":
    main()
