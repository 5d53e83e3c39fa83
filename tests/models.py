"""The models that tests, demo and benchmarks share: twelve layers, tiny widths, random weights, nothing downloaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402

__all__ = ["MODELS", "bert", "gpt2", "inputs", "llama"]

Made = tuple[torch.nn.Module, dict[str, Any]]


def inputs(batch: int = 1, length: int = 16) -> dict[str, Any]:
    """Token numbers below every model's vocabulary."""
    generator = torch.Generator().manual_seed(batch * 100 + length)
    return {"input_ids": torch.randint(0, 100, (batch, length), generator=generator)}


def bert(layers: int = 12) -> Made:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=64, intermediate_size=128, num_attention_heads=4, num_hidden_layers=layers, vocab_size=200
    )
    return _made(lambda: BertModel(config))


def gpt2(layers: int = 12) -> Made:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(n_embd=64, n_layer=layers, n_head=4, vocab_size=200)
    return _made(lambda: GPT2Model(config))


def llama(layers: int = 12) -> Made:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=4,
        num_hidden_layers=layers,
        vocab_size=200,
    )
    return _made(lambda: LlamaModel(config))


def _made(build: Callable[[], torch.nn.Module]) -> Made:
    torch.manual_seed(0)
    return build().eval(), inputs()


#: name -> (model in eval mode, keyword arguments of a call)
MODELS: dict[str, Callable[..., Made]] = {"bert": bert, "gpt2": gpt2, "llama": llama}
