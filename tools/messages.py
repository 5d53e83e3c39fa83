"""What framelift says to users, side by side with what it said before: docs/messages.md, for review.

python tools/messages.py            write the page, from docs/messages_before.json and this framelift
python tools/messages.py --check    show how the page differs from what this framelift says, and exit with 1 if it does
python tools/messages.py --before   write docs/messages_before.json, from the framelift that is imported
"""

from __future__ import annotations

import difflib
import json
import logging
import re
import runpy
import sys
import tempfile
import warnings
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, BEFORE = DOCS / "messages.md", DOCS / "messages_before.json"
HEAD = """import torch, framelift
compile = lambda f, **kw: framelift.compile(f, **{"backend": "eager", **kw})
x = torch.ones(2, 3)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = torch.nn.Linear(3, 3), torch.nn.Dropout(0.5)
    def forward(self, idx, targets=None):
        y = self.drop(self.layer(idx))
        return y if targets is None else (y - targets).sum()
"""
#: title -> a program that gets one message: an error, a warning, or a line in the log
PROGRAMS = {
    "a branch on a tensor": "compile(lambda x: x + 1 if x.sum() > 0 else x, fullgraph=True)(x)",
    "a number out of a tensor": "compile(lambda x: x * x.sum().item() ** 2 if x.max().item() else x)(x)\n"
    "compile(lambda x: len(str(x.sum().item())), fullgraph=True)(x)",
    "print": "compile(lambda x: (print('state'), x + 1)[1], fullgraph=True)(x)",
    "a C function": "compile(lambda x: x + len(input()), fullgraph=True)(x)",
    "a break below a module": "class Branch(Net):\n    def forward(self, idx):\n        y = self.layer(idx)\n"
    "        return y if y.sum() > 0 else -y\ncompile(Branch(), fullgraph=True)(x)",
    "a generator": "def parts(x):\n    values = (x + i for i in range(2))\n    next(values)\n    return values\n"
    "compile(parts, fullgraph=True)(x)",
    "a coroutine": "async def later(x):\n    return x + 1\ncompile(later, fullgraph=True)(x).close()",
    "an open file": "def f(x):\n    open('/dev/null').close()\n    return x + 1\ncompile(f, fullgraph=True)(x)",
    "a shape that values decide": "compile(lambda x: x.nonzero().tolist(), fullgraph=True)(x)",
    "an operation that fails": "compile(lambda x: x @ x, fullgraph=True)(x)",
    "a function that is not to be compiled": "def helper(x):\n    return x\noff = framelift.disable(helper)\n"
    "compile(lambda x: off(x) + 1, fullgraph=True)(x)",
    "graph_break": "def f(x):\n    framelift.graph_break()\n    return x + 1\ncompile(f, fullgraph=True)(x)",
    "a size marked dynamic that is not": "framelift.mark_dynamic(x, 0)\n"
    "compile(lambda x: x + 1 if x.shape[0] == 2 else x)(x)",
    "an unknown backend": "compile(lambda x: x, backend='inducter')(x)",
    "a backend that fails": "def bad(graph, inputs):\n    raise ValueError('no sin, please')\n"
    "compile(lambda x: x.sin(), backend=bad)(x)",
    "a backend that returns no callable": "compile(lambda x: x.sin(), backend=lambda graph, inputs: 3)(x)",
    "an unknown option": "framelift.config.recompile_limits = 3",
    "an unknown argument": "framelift.compile(lambda x: x, full_graph=True)",
    "an unknown stance": "framelift.set_stance('eagr')",
    "an unknown log": "framelift.set_logs(brakes=True)",
    "not a callable": "framelift.compile(3)",
    "a verified call that differs": "def wrong(graph, inputs):\n    return lambda *inputs: (x,)\n"
    "compile(lambda x: x + 1, backend=wrong, verify=1)(x)",
    "a recompile where it is an error": "f = compile(lambda x, n: x + len(n))\nf(x, 'a')\n"
    "with framelift.set_stance('fail_on_recompile'):\n    f(x, 'ab')",
    "the limit of recompiles": "f = compile(lambda x, n: x + len(n))\nfor i in range(12):\n    f(x, 'a' * i)",
    "a number that changes": "f = compile(lambda x, n: x * n, dynamic=False)\nf(x, 2)\nf(x, 3)",
    "another size": "f = compile(lambda x: x * 2, dynamic=False)\nf(x)\nf(torch.ones(4, 3))",
    "another dtype": "f = compile(Net().double())\nf(x.double())\nf = compile(lambda x: x + 1)\nf(x)\nf(x.double())",
    "an argument more": "f = compile(Net())\nf(x, x)\nf(x)",
    "None or a tensor": "f = compile(lambda x, mask: x if mask is None else x * mask)\nf(x, None)\nf(x, x)",
    "train and eval": "net = Net()\nf = compile(net)\nf(x)\nnet.eval()\nf(x)",
    "another key": "f = compile(lambda x, d: x + sum(d.values()))\nf(x, {'a': 1})\nf(x, {'a': 1, 'b': 2})",
    "a global that changes": "mode = 'sum'\ndef f(x):\n    return x.sum() if mode == 'sum' else x\n"
    "f = compile(f)\nf(x)\nmode = 'none'\nf(x)",
    "another type": "f = compile(lambda x, n: x if n is None else x + 1)\nf(x, 1)\nf(x, 'one')",
}


def messages() -> dict[str, str]:
    """What this framelift says to each program."""
    import framelift

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("framelift.recompiles")
    found = {}
    for title, program in PROGRAMS.items():
        framelift.reset()
        framelift.set_logs(recompiles=True)
        logger.addHandler(handler)
        logger.propagate = False
        said.clear()
        found[title] = _message(program, said) or "(nothing)"
    return found


def _message(program: str, said: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        path = Path(folder, "program.py")
        path.write_text(HEAD + program + "\n")
        text = ""
        try:
            runpy.run_path(str(path))
        except Exception as error:
            notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
            text = f"{type(error).__qualname__}: {error}{notes}"
        ours = [str(one.message) for one in warned if "framelift" in str(one.message)]
        rows = [text] if text else ours or said[-1:]
        return _plain("\n".join(rows), folder)


def _plain(text: str, folder: str) -> str:
    """Without what differs from run to run."""
    text = text.replace(f"{folder}/", "")
    text = re.sub(r'"?/\S*/site-packages/', lambda found: found[0][: found[0].startswith('"')] + "…/", text)
    text = re.sub(r"/\S*/(\w+_)\d+_\d+\.py", r"/tmp/\1N.py", text)
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


def _shown(word: str, text: str) -> list[str]:
    return [f"{word}:", "", "```text", text.rstrip(), "```", ""]


def page(before: dict[str, str], after: dict[str, str]) -> str:
    """The page."""
    rows = [
        "# Messages, before and after",
        "",
        f"{len(PROGRAMS)} programs that get a message: what an early version said (4b3a781), and what is said now.",
        "For review: a message that has to be read twice is a defect. Made by `python tools/messages.py`.",
        "",
    ]
    for title, program in PROGRAMS.items():
        rows += [f"## {title[0].upper()}{title[1:]}", "", "```py", program, "```", ""]
        same = before.get(title) == after[title]
        rows += [] if same else _shown("Before", before.get(title, "(not known)"))
        rows += _shown("Before and now" if same else "Now", after[title])
    return "\n".join(rows)


def main() -> int:
    found = messages()
    if "--before" in sys.argv:
        BEFORE.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    made = page(json.loads(BEFORE.read_text()), found)
    if "--check" in sys.argv:
        rows = difflib.unified_diff(PAGE.read_text().splitlines(), made.splitlines(), "the page", "now", lineterm="")
        print(difference := "\n".join(rows))
        return int(bool(difference))
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
