"""Whole models with Inductor under bf16 autocast, beside eager and torch.compile: no crash, no difference beyond
torch.compile's own, and steady times.

    python benchmarks/board.py --device cuda --out board.json             what is not in board.json yet, in a budget
    python benchmarks/board.py --check --out board.json                   no times; torch.compile where it is needed
    python benchmarks/board.py --models bert,resnet50 --modes train       some of them
    python benchmarks/board.py --out board.json --show                    the table alone

Models are built from configurations with random weights.  Each model and mode has a process of its own; `--jobs` of
them compile at a time.  When all of these are done they are timed one after the other, while nothing compiles.  A call
that is stopped, or whose `--budget` is spent, is continued by the same call: results are written as they come.
Times of first steps are not comparable: torch.compile comes second, and finds kernels in Inductor's cache.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import math
import os
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any

TIMM = (
    "resnet50 convnext_tiny vit_base_patch16_224 deit_small_patch16_224 swin_tiny_patch4_window7_224 efficientnet_b0 "
    "mobilenetv3_large_100 regnety_032 mixer_b16_224 beit_base_patch16_224 levit_128 maxvit_tiny_tf_224 "
    "poolformer_s12 densenet121 vgg16 resnest26d tf_efficientnetv2_s xcit_tiny_12_p16_224 botnet26t_256 ghostnet_100"
).split()
#: model type -> the class it is built with, and what its configuration has beside the defaults
_SMALL = {"num_hidden_layers": 6}
TRANSFORMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("AutoModelForMaskedLM", _SMALL),
    "roberta": ("AutoModelForMaskedLM", _SMALL),
    "distilbert": ("AutoModelForMaskedLM", {}),
    "albert": ("AutoModelForMaskedLM", {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}),
    "electra": ("AutoModelForMaskedLM", _SMALL),
    "deberta-v2": ("AutoModelForMaskedLM", {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 6}),
    "gpt2": ("AutoModelForCausalLM", {"n_layer": 6}),
    "opt": ("AutoModelForCausalLM", _SMALL),
    "bloom": ("AutoModelForCausalLM", {"hidden_size": 768, "n_layer": 6, "n_head": 12}),
    "llama": ("AutoModelForCausalLM", {}),
    "mistral": ("AutoModelForCausalLM", {}),
    "qwen2": ("AutoModelForCausalLM", {}),
    "gemma": ("AutoModelForCausalLM", {"head_dim": 64}),
    "phi": ("AutoModelForCausalLM", {}),
    "t5": ("AutoModelForSeq2SeqLM", {"num_layers": 6}),
    "bart": ("AutoModelForSeq2SeqLM", {"encoder_layers": 4, "decoder_layers": 4}),
}
#: where a configuration's own sizes are those of billions of parameters
_SIZES = {
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "vocab_size": 16000,
}
_LARGE = ("llama", "mistral", "qwen2", "gemma", "phi")
_TINY = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size"), 48),
    **dict.fromkeys(("intermediate_size", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "hidden_dim"), 96),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers"), 3),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    "num_key_value_heads": 2,
    "vocab_size": 200,
    "head_dim": 12,
    "d_kv": 12,
    "word_embed_proj_dim": 48,
}
NAMES = (*TIMM, *TRANSFORMERS)
MODES = ("train", "infer")
_NO_ANSWER = "no answer in time"  # such models are tried again
_WRITING = threading.Lock()


# ---- one model, in a process of its own ------------------------------------------------------------------------------


def build(name: str, tiny: bool, batch: int) -> tuple[Any, dict[str, Any]]:
    """Return a model without dropout, and what it is called with."""
    import torch

    torch.manual_seed(0)
    if name in TIMM:
        import timm

        model = timm.create_model(name, pretrained=False, drop_rate=0.0)
        size = model.default_cfg["input_size"] if not tiny else (3, 64, 64)
        return model, {"x": torch.randn(batch, *size)}
    import transformers

    kind, changes = TRANSFORMERS[name]
    config = transformers.AutoConfig.for_model(name)
    changes = {**(_SIZES if name in _LARGE else {}), **changes, **(_TINY if tiny else {})}
    for key, value in changes.items():
        if hasattr(config, key):
            setattr(config, key, value)
    for key, value in vars(config).items():
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
    config.use_cache = False
    for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        if isinstance(getattr(config, key, None), int):
            setattr(config, key, min(getattr(config, key), 3))
    model = getattr(transformers, kind).from_config(config)
    length = 16 if tiny else 256
    tokens = torch.randint(4, config.vocab_size, (batch, length))
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if kind == "AutoModelForSeq2SeqLM":
        inputs["decoder_input_ids"] = tokens.flip(1)
    return model, inputs


def _step(
    model: Any, call: Callable[..., Any], inputs: dict[str, Any], device: str, train: bool, autocast: bool = True
) -> list[Any]:
    """One step: the result, and in training the gradients."""
    import torch

    with torch.autocast(device, torch.bfloat16, enabled=autocast), torch.set_grad_enabled(train):
        result = call(**inputs)
        result = getattr(result, "logits", result)
        loss = result.float().pow(2).mean() if train else None
    if loss is None:
        return [result]
    model.zero_grad(set_to_none=True)
    loss.backward()
    return [result, *(one.grad for one in model.parameters() if one.grad is not None)]


def _difference(wanted: list[Any], given: list[Any]) -> float:
    """The largest difference, relative to the largest value of its tensor."""
    if len(wanted) != len(given):
        return math.inf
    found = 0.0
    for a, b in zip(wanted, given):
        a, b = a.float(), b.float()
        if not bool(b.isfinite().all()) and bool(a.isfinite().all()):
            return math.inf
        found = max(found, float((a - b).abs().max() / a.abs().max().clamp_min(1e-6)))
    return found


def _times(steps: dict[str, Callable[[], Any]], device: str, patience: float) -> dict[str, float]:
    """Milliseconds of each step: rounds by turns, the best round's median."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    rounds: dict[str, list[float]] = {who: [] for who in steps}
    end = time.perf_counter() + patience
    while time.perf_counter() < end or min(map(len, rounds.values()), default=3) < 3:
        for who, step in steps.items():
            times = []
            for _ in range(10):
                wait()
                start = time.perf_counter()
                step()
                wait()
                times.append(time.perf_counter() - start)
            rounds[who].append(statistics.median(times))
    return {who: min(found) * 1e3 for who, found in rounds.items()}


def child(name: str, mode: str, device: str, tiny: bool, batch: int, check: bool) -> None:
    """Compile and compare, say so, wait for the word, take times: a line of JSON for each part."""
    import torch

    import framelift

    say = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what models print is no answer
    row: dict[str, Any] = {"model": name, "mode": mode, "device": device}
    train = mode == "train"
    model, inputs = build(name, tiny, batch)
    model = model.to(device).train(train)
    inputs = {key: value.to(device) for key, value in inputs.items()}
    if "x" in inputs:
        inputs = {next(iter(_parameters(model))): inputs["x"]}
    wanted = [one.detach().clone() for one in _step(model, model, inputs, device, train)]
    steps: dict[str, Callable[[], list[Any]]] = {}
    if check:  # how far autocast itself is from float32: a difference below it needs no second witness
        exact = _step(model, model, inputs, device, train, autocast=False)
        row["autocast_difference"] = _difference(exact, wanted)
        del exact
    for who, compile_ in (("ours", framelift.compile), ("torch", torch.compile)):
        if who == "torch" and check and row.get("ours_difference", math.inf) <= 2 * row["autocast_difference"]:
            continue
        own = copy.deepcopy(model)
        call = compile_(own)
        start = time.perf_counter()
        try:
            made = [_step(own, call, inputs, device, train) for _ in range(2)]
            row[f"{who}_difference"] = max(_difference(wanted, one) for one in made)
            steps[who] = lambda own=own, call=call: _step(own, call, inputs, device, train)  # type: ignore[misc]
        except Exception as error:
            row[f"{who}_error"] = f"{type(error).__name__}: {error}"[:600]
        row[f"{who}_first_s"] = time.perf_counter() - start
    stats = framelift.stats()
    row |= {"graphs": stats["graphs"], "breaks": sum(stats["breaks"].values()), "fallbacks": stats["fallbacks"]}
    print(json.dumps(row), file=say, flush=True)
    if not sys.stdin.readline():
        return
    print(json.dumps({f"{who}_ms": best for who, best in _times(steps, device, 3.0).items()}), file=say, flush=True)


def _parameters(model: Any) -> dict[str, Any]:
    import inspect

    return dict(inspect.signature(model.forward).parameters)


# ---- all of them -----------------------------------------------------------------------------------------------------


class Job:
    """A model and a mode in its process."""

    def __init__(self, name: str, mode: str, options: argparse.Namespace) -> None:
        self.row: dict[str, Any] = {"model": name, "mode": mode, "device": options.device}
        self.errors = tempfile.TemporaryFile("w+")
        words = [sys.executable, os.path.abspath(__file__), "--child", name, mode, "--device", options.device]
        words += ["--batch", str(options.batch)]
        words += [word for word in ("--tiny", "--check") if getattr(options, word[2:])]
        environment = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1", **os.environ}
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment
        )
        self.end = time.monotonic() + options.limit

    def read(self, end: float) -> None:
        """Add the next line of the process to the row; where there is none in time, why."""
        assert self.process.stdout is not None
        ready = select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0.0))[0]
        line = self.process.stdout.readline() if ready else ""
        if line:
            self.row.update(json.loads(line))
            return
        self.errors.seek(0)
        last = self.errors.read().strip().splitlines()[-1:]
        self.row["crash"] = f"ended: {' '.join(last)}"[:600] if ready else _NO_ANSWER
        self.stop()

    def time(self) -> None:
        """Let it take its times."""
        if "crash" not in self.row:
            assert self.process.stdin is not None
            with contextlib.suppress(OSError):
                self.process.stdin.write("go\n")
                self.process.stdin.flush()
            self.read(time.monotonic() + 120)
        self.stop()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run what is not in the file yet, as far as the budget goes."""
    rows = _read(options.out)
    done = {(row["model"], row["mode"]): row.get("crash") for row in rows if row["device"] == options.device}
    todo = [(name, mode) for name in options.models for mode in options.modes]
    todo = [one for one in todo if one not in done] + [one for one in todo if done.get(one) == _NO_ANSWER]
    end = time.monotonic() + options.budget
    if options.check:
        return _check(todo, rows, options, end)
    while todo and time.monotonic() + options.limit < end:
        jobs = [Job(name, mode, options) for name, mode in todo[: options.jobs]]
        del todo[: options.jobs]
        try:
            for job in jobs:
                job.read(job.end)
            for job in jobs:
                job.time()
                _add(job.row, rows, options.out)
        finally:
            for job in jobs:
                job.stop()
    if todo:
        print(f"{len(todo)} to go: the same call again")
    return rows


def _check(
    todo: list[tuple[str, str]], rows: list[dict[str, Any]], options: argparse.Namespace, end: float
) -> list[dict[str, Any]]:
    """Run models side by side, without times."""

    def one(name: str, mode: str) -> None:
        if time.monotonic() > end:
            return
        job = Job(name, mode, options)
        job.read(min(job.end, end))
        job.stop()
        if time.monotonic() < end:
            _add(job.row, rows, options.out)

    with ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(one, *pair) for pair in todo]:
            done.result()
    return rows


def _add(row: dict[str, Any], rows: list[dict[str, Any]], out: str) -> None:
    """Put a row in the place of an older one, and write all."""
    key = itemgetter("model", "mode", "device")
    with _WRITING:
        rows[:] = [one for one in rows if key(one) != key(row)] + [row]
        print(_line(row), flush=True)
        _write(out, rows)


def _read(path: str) -> list[dict[str, Any]]:
    if not path or not os.path.exists(path):
        return []
    with open(path) as file:
        found: list[dict[str, Any]] = json.load(file)
    return found


def _write(path: str, rows: list[dict[str, Any]]) -> None:
    if path:
        with open(f"{path}.part", "w") as file:
            json.dump(rows, file, indent=1)
        os.replace(f"{path}.part", path)


def verdict(row: dict[str, Any]) -> str:
    """ok; crash; differs: by more than torch.compile does; both: torch.compile fails, too."""
    ours, theirs = row.get("crash") or row.get("ours_error"), row.get("torch_error")
    if ours or theirs:
        return "crash" if ours and not theirs else "both" if ours else "torch fails"
    second = row.get("torch_difference", row.get("autocast_difference"))
    is_more = row["ours_difference"] > 2 * second + 1e-3
    return "differs" if is_more else "fell back" if row.get("fallbacks") else "ok"


def _line(row: dict[str, Any]) -> str:
    shown = [f"{row['model']:30}{row['mode']:7}{verdict(row):12}"]
    differences = ("ours_difference", "torch_difference", "autocast_difference")
    shown += [f"{row.get(key, math.nan):11.2e}" for key in differences]
    shown += [f"{row.get(key, math.nan):9.2f}" for key in ("ours_ms", "torch_ms")]
    ratio = row["ours_ms"] / row["torch_ms"] if "ours_ms" in row and "torch_ms" in row else math.nan
    shown += [f"{ratio:8.3f}{row.get('breaks', '-'):>8}", f"{row.get('ours_first_s', math.nan):9.1f}"]
    return "".join(shown) + f"{row.get('torch_first_s', math.nan):9.1f}"


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    titles = ("our diff", "torch diff", "autocast", "our ms", "torch ms", "ratio", "breaks", "first s", "torch s")
    widths = (11, 11, 11, 9, 9, 8, 8, 9, 9)
    print(f"\n{'model':30}{'mode':7}{'':12}" + "".join(f"{title:>{width}}" for title, width in zip(titles, widths)))
    for row in sorted(rows, key=lambda row: (row["mode"], NAMES.index(row["model"]))):
        print(_line(row))
    for mode in MODES:
        ratios = [
            row["ours_ms"] / row["torch_ms"]
            for row in rows
            if row["mode"] == mode and {"ours_ms", "torch_ms"} <= {*row}
        ]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            print(f"{mode}: {len(ratios)} models, time by torch.compile's: mean {mean:.3f}, worst {max(ratios):.3f}")
    for row in rows:
        if (why := row.get("crash") or row.get("ours_error")) or row.get("fallbacks"):
            print(f"{row['model']} {row['mode']}: {why or row['fallbacks']}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(NAMES), help="names; also: timm, transformers")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=12, help="processes that compile at a time")
    parser.add_argument("--limit", type=float, default=240, help="seconds for a model to compile, each")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for the whole call")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--out", default="", help="the file of results, which is continued")
    parser.add_argument("--show", action="store_true")
    parser.add_argument(
        "--check", action="store_true", help="no times; torch.compile only beyond twice autocast's own difference"
    )
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "MODE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.device, options.tiny, options.batch, options.check)
        return
    groups = {"timm": TIMM, "transformers": [*TRANSFORMERS]}
    options.models = [one for name in options.models.split(",") for one in groups.get(name, [name])]
    options.modes = options.modes.split(",")
    show(_read(options.out) if options.show else run(options))


if __name__ == "__main__":
    main()
