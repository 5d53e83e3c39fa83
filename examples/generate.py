"""transformers' generate with a compiled model: a Llama with random weights, greedy decoding, a static cache.

python examples/generate.py [--tokens 16] [--backend inductor]
"""

from __future__ import annotations

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

import framelift


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = LlamaForCausalLM(config).eval()
    prompt = torch.randint(0, 128, (1, 5))

    def generate() -> torch.Tensor:
        cache = StaticCache(config=config, max_cache_len=64)
        return model.generate(
            prompt, max_new_tokens=options.tokens, do_sample=False, past_key_values=cache, pad_token_id=0
        )

    expected = generate()
    model.forward = framelift.compile(model.forward, backend=options.backend)
    found = generate()
    assert torch.equal(found, expected)
    print(found[0].tolist())
    print(f"{framelift.stats()['captures']} captures for {options.tokens} tokens")


if __name__ == "__main__":
    main()
