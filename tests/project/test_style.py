"""The linter and the formatter, with the settings of pyproject.toml; no line of the core or of a test is long."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "command", [("check", "--output-format", "concise"), ("format", "--check")], ids=lambda c: c[0]
)
def test_ruff_finds_nothing(command: tuple[str, ...]) -> None:
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("ruff is not installed; `pip install ruff` lets this test check the style")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder, pattern", [("csrc", "*.*"), ("tests", "**/*.py")], ids=["csrc", "tests"])
def test_lines_end_at_120_characters(folder: str, pattern: str) -> None:
    """What the linter does not look at: the core, whose style is in .clang-format, and the tests."""
    files = sorted((ROOT / folder).glob(pattern))
    assert files
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), 1)
        if len(line) > 120
    ]
    assert not long, ", ".join(long)
