"""What `import framelift` costs on top of `import torch`, what loading its parts costs, and the first capture beside a
later one.

    python benchmarks/import_time.py [REPEATS]

CPU seconds of fresh processes; the least of all repeats.  `python -X importtime -c "import torch, framelift"` shows
single modules.
"""

from __future__ import annotations

import json
import subprocess
import sys

_PROGRAM = """
import json, time
clock = time.process_time
start = clock()
import torch
torch_seconds, start = clock() - start, clock()
import framelift
own, start = clock() - start, clock()
framelift.compile
loading = clock() - start

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.layer = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)
    def forward(self, x):
        return x + torch.nn.functional.gelu(self.layer(self.norm(x))).softmax(-1)

captures = []
for _ in range(3):
    blocks = torch.nn.Sequential(*[Block() for _ in range(8)])
    compiled = framelift.compile(blocks, backend="eager", isolate_recompiles=True)
    start = clock()
    compiled(torch.ones(2, 8))
    captures.append(clock() - start)
print(json.dumps({"import torch": torch_seconds, "import framelift": own, "first use of a name": loading,
                  "first capture": captures[0], "third capture": captures[2]}))
"""


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    rows = [
        json.loads(subprocess.run([sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    ]
    for name in rows[0]:
        print(f"{name:20} {min(row[name] for row in rows):7.3f} s")


if __name__ == "__main__":
    main()
