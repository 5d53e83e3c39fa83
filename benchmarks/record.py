"""What the always-on record costs when a 12-layer BERT is captured, in CPU time.

    python benchmarks/record.py [ROUNDS]

Two ways: its parts are timed one by one, and the whole is captured with and without them in turns.  On a busy
machine only the first is steady; it counts the timing itself too.  Also says how long the report of that model
takes to make, and how large its HTML page is.
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
from framelift.capture import driver
from framelift.capture.records import captures
from framelift.graph.fx import tape

PARTS = {
    (tape, "places"): lambda: (),
    (captures.Record, "add"): lambda self, capture: None,
    (driver, "spent"): lambda sessions: (),
    (driver, "resumed_from"): lambda breaks, code: None,
    (captures.Capture, "phase"): contextlib.contextmanager(lambda self, name: (yield)),
}


def capture(model: torch.nn.Module, ids: torch.Tensor) -> tuple[float, Any]:
    framelift.reset()
    compiled = framelift.compile(model, backend="eager")
    start = time.process_time()
    with torch.no_grad():
        compiled(ids)
    return time.process_time() - start, compiled


def shares(model: torch.nn.Module, ids: torch.Tensor, rounds: int) -> None:
    """The time inside each part, beside that of the whole capture."""
    spent: dict[str, float] = {}
    each: list[dict[str, float]] = []
    whole = []

    def timed(name: str, function: Any) -> Any:
        def run(*args: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args)
            finally:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - start

        return run

    kept = {place: getattr(*place) for place in PARTS if place[1] != "phase"}
    for (owner, name), value in kept.items():
        setattr(owner, name, timed(name, value))
    for _ in range(rounds):
        spent.clear()
        whole.append(capture(model, ids)[0])
        each.append(dict(spent))
    for (owner, name), value in kept.items():
        setattr(owner, name, value)
    middle = statistics.median(whole)
    for name in each[0]:
        seconds = statistics.median(one[name] for one in each)
        print(f"{name:16} {seconds * 1e3:7.2f} ms of {middle * 1e3:.1f} ms, {100 * seconds / middle:.2f} %")
    together = statistics.median(sum(one.values()) for one in each)
    print(f"{'together':16} {together * 1e3:7.2f} ms, {100 * together / middle:.2f} %")


def main(rounds: int) -> None:
    torch.manual_seed(0)
    model = BertModel(
        BertConfig(num_hidden_layers=12, hidden_size=64, num_attention_heads=4, intermediate_size=128)
    ).eval()
    ids = torch.randint(0, 100, (2, 16))
    kept = {place: getattr(*place) for place in PARTS}
    capture(model, ids), capture(model, ids)
    shares(model, ids, rounds)
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
    frames = sum(row.calls for row in compiled._compiled.entries[0].info.spent)
    print(f"timed frames, always on: {frames}; two readings of the processor's counter and a look-up each")
    start = time.process_time()
    report = compiled.report()
    page = report.to_html()
    print(
        f"report: {time.process_time() - start:.2f} s, {report.guards} guards, {report.operations} "
        f"operations, {len(page) / 1e6:.2f} MB of HTML"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
