"""What the always-on record costs: CPU time of capturing a 12-layer BERT with it, and with its parts taken out, in turns.

    python benchmarks/record.py [ROUNDS]

Also says how long the report of that model takes to make, and how large its HTML page is.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from typing import Any

import torch
from transformers import BertConfig, BertModel

import framelift
from framelift.graph import tape
from framelift.run import record

PARTS = {(tape, "places"): lambda: (), (record.Record, "add"): lambda self, capture: None,
         (record.Capture, "phase"): contextlib.contextmanager(lambda self, name: (yield))}


def capture(model: torch.nn.Module, ids: torch.Tensor) -> tuple[float, Any]:
    framelift.reset()
    compiled = framelift.compile(model, backend="eager")
    start = time.process_time()
    with torch.no_grad():
        compiled(ids)
    return time.process_time() - start, compiled


def main(rounds: int) -> None:
    torch.manual_seed(0)
    model = BertModel(BertConfig(num_hidden_layers=12, hidden_size=64, num_attention_heads=4, intermediate_size=128)).eval()
    ids = torch.randint(0, 100, (2, 16))
    kept = {place: getattr(*place) for place in PARTS}
    capture(model, ids), capture(model, ids)
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * rounds):
        with_record = number % 2 == 0
        for (owner, name), value in (kept if with_record else PARTS).items():
            setattr(owner, name, value)
        times[with_record].append(capture(model, ids)[0])
    for (owner, name), value in kept.items():
        setattr(owner, name, value)
    for word, choose in (("least", min), ("median", statistics.median)):
        on, off = choose(times[True]), choose(times[False])
        print(f"{word}: {on * 1e3:.1f} ms with the record, {off * 1e3:.1f} ms without, {100 * (on / off - 1):+.1f} %")
    _, compiled = capture(model, ids)
    start = time.process_time()
    report = compiled.report()
    page = report.to_html()
    print(f"report: {time.process_time() - start:.2f} s, {report.guards} guards, {report.operations} operations, {len(page) / 1e6:.2f} MB of HTML")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
