"""Every program in examples/ runs, with the eager backend: each checks its own results.  The notebook has a kernel."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    "train_gpt": ["--steps", "20", "--backend", "eager"],
    "generate": ["--tokens", "8", "--backend", "eager"],
    "serve": ["--backend", "eager"],
    "export_model": ["--aoti"],
    "two_ranks": ["--backend", "eager"],
    "fine_tune_timm": ["--backend", "eager", "--steps", "8"],
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == {*OPTIONS}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_example(name: str) -> None:
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "FRAMELIFT_STRICT": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *OPTIONS[name]],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_notebook(monkeypatch) -> None:
    """It runs as it is, its cells are called by their numbers, and its saved outputs are of the kinds it gives."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    saved = nbformat.read(ROOT / "examples" / "first_look.ipynb", as_version=4)
    shown = copy.deepcopy(saved)
    nbclient.NotebookClient(shown, timeout=120, kernel_name="python3").execute()
    kinds = [
        [[(o.output_type, *sorted(o.get("data", ()))) for o in cell.get("outputs", ())] for cell in one.cells]
        for one in (saved, shown)
    ]
    assert kinds[0] == kinds[1]
    cards = [
        o.data["text/html"] for cell in shown.cells for o in cell.get("outputs", ()) if "text/html" in o.get("data", ())
    ]
    assert (
        len(cards) == 2 and "cell In[1]:12 in Model.forward" in cards[0] and "cell In[3]:6 in Fixed.forward" in cards[1]
    )
    assert any("# cell In[3]:5 in Fixed.forward" in o.get("text", "") for o in shown.cells[-1].outputs)
