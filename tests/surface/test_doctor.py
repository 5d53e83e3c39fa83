"""`framelift doctor`: what it finds, its exit status, and its self-test."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

import framelift
from framelift.surface import self_test
from framelift.surface.doctor import examine
from framelift.vocabulary.environment import unknown_variables


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "framelift", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )


def test_what_is_found_here_is_right(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FRAMELIFT_CACHE_DIR", str(tmp_path))
    found = {(one.section, one.name): one for one in examine()}
    assert not [one for one in found.values() if one.status == "wrong"]
    assert torch.__version__ in found["torch", "version"].text
    assert sys.executable in found["Python", "interpreter"].text
    assert all(what in found["torch", "layouts"].text for what, _, _ in framelift._core.LAYOUTS)
    assert " found" in found["parts of torch", "in all"].text
    assert found["drop-in", "torch.compile"].text == "not installed in this process"


def test_variables_that_nothing_reads_are_named(monkeypatch) -> None:
    monkeypatch.setenv("FRAMELIFT_CACHDIR", "x")
    monkeypatch.setenv("FRAMELIFT_CACHE_DIR", "x")
    monkeypatch.setenv("FRAMELIFT_LOGS", "breaks")
    found = unknown_variables()
    assert found["FRAMELIFT_CACHDIR"] == "nothing reads it; did you mean FRAMELIFT_CACHE_DIR?"
    assert not {"FRAMELIFT_CACHE_DIR", "FRAMELIFT_LOGS"} & set(found)


def test_a_folder_that_others_may_write_to_is_noted(tmp_path, monkeypatch) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(open_to_all))
    (inductor,) = [one for one in examine() if one.name == "Inductor"]
    assert inductor.status == "note" and "others than you" in inductor.text


def test_the_command_prints_json(tmp_path) -> None:
    done = command("doctor", "--json", "--no-test", FRAMELIFT_NONSENSE="1", TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["framelift"] == framelift.__version__
    (one,) = [one for one in found["findings"] if one["name"] == "FRAMELIFT_NONSENSE"]
    assert (one["section"], one["status"]) == ("environment", "note") and one["text"].startswith("1; nothing reads it")


def test_the_version_is_printed() -> None:
    assert command("--version").stdout == f"framelift {framelift.__version__}, torch {torch.__version__}\n"


@pytest.mark.slow
def test_the_self_test_passes_here() -> None:
    results = list(self_test.results())
    assert [one.name for one in results] == list(self_test.PROGRAMS)
    assert all(one.passed for one in results), results


def test_a_program_that_fails_is_told_with_its_reason(monkeypatch) -> None:
    monkeypatch.setattr(
        self_test, "PROGRAMS", {"wrong": ("found, wanted = torch.zeros(1), torch.ones(1)" + self_test._SAME, 1, "")}
    )
    (one,) = self_test.results()
    assert not one.passed and one.text.startswith("failed: ")
