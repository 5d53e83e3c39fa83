"""Files of packages: damaged, cut off, forged, foreign and unsigned ones are errors; none runs anything."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.exc import PackageError
from framelift.packages.container import read_container, written
from framelift.packages.signing import key_id, signing_key
from framelift.surface import (
    cli_package,  # noqa: F401  (adds its command)
    compiling,
)
from framelift.surface.cli import main

KEY = b"a key of the user's own choice"


@pytest.fixture(autouse=True)
def keys(tmp_path: Path) -> Any:
    framelift.reset()
    with config.patch(strict=True, cache_dir=str(tmp_path / "keys")):
        yield


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def package(key: Any = None) -> bytes:
    compiled = framelift.compile(double, backend="eager", fullgraph=True)
    return compiled.aot_compile(((torch.ones(2),), {})).serialize(key=key)


def load(content: bytes, **options: Any) -> Any:
    return framelift.load_compiled_function(io.BytesIO(content), **options)(torch.ones(2)).tolist()


def changed(content: bytes, key: bytes | None, **facts: Any) -> bytes:
    """The package with other facts in its manifest, signed again."""
    found = read_container(content)
    manifest = {name: value for name, value in found.manifest.items() if name not in ("parts", "format")}
    return written({**manifest, **facts}, found.parts, key)


def test_who_may_be_trusted(tmp_path: Path) -> None:
    own, named, unsigned = package(), package(KEY), package(False)
    assert load(own) == load(named, key=KEY) == [2, 2]
    with pytest.raises(PackageError, match="is not signed. Loading it runs what is in it"):
        load(unsigned)
    with pytest.raises(PackageError, match="signed with a key that is not known here"):
        load(named)
    with pytest.raises(PackageError, match="signed with a key that is not known here"):
        load(named, key=b"another key of this length")
    assert load(unsigned, trust=True) == load(named, trust=True) == [2, 2]
    (tmp_path / "key").write_bytes(KEY + b"\n")
    assert load(named, key=tmp_path / "key") == [2, 2]
    with config.patch(cache_dir=str(tmp_path / "elsewhere")), pytest.raises(PackageError, match="not known here"):
        load(own)  # of another user
    with pytest.raises(PackageError, match="at least 16 bytes"):
        package(b"short")


def test_another_system(tmp_path: Path) -> None:
    content, key = package(), signing_key(None)
    system = read_container(content).manifest["system"]
    for name, value, words in (
        ("torch", "1.0", "PyTorch version: 1.0; this is"),
        ("python", "cpython 2.7", "Python version"),
        ("framelift", "0", "version of framelift"),
        ("platform", "plan9", "platform"),
    ):
        with pytest.raises(PackageError, match=f"created with a different {words}"):
            load(changed(content, key, system={**system, name: value}))
    with pytest.raises(PackageError, match="cuda|different GPU"):
        load(changed(content, key, devices=["cpu", "cuda"], system={**system, "gpu": "another"}))
    with pytest.raises(PackageError, match="different PyTorch version"):
        load(changed(content, None, system={**system, "torch": "1.0"}), trust=True)


def test_damaged_files() -> None:
    content = package()
    dice = random.Random(0)
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(dice.choice((1, 1, 1, 8))):
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        try:
            assert load(bytes(damaged)) == [2, 2]  # a bit that says nothing, of a date for instance
        except PackageError as error:
            assert len(str(error)) > 10
    for length in range(0, len(content), 97):
        with pytest.raises(PackageError):
            load(content[:length])
    with pytest.raises(PackageError, match="damaged, or no package"):
        load(b"PK\x03\x04 and so on")


def rezipped(content: bytes, **replaced: bytes) -> bytes:
    """Parts replaced or added, by names in which `_` stands for `/`."""
    parts = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in {**parts, **{name.replace("_", "/"): part for name, part in replaced.items()}}.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def test_parts_that_are_swapped_or_added(tmp_path: Path) -> None:
    content = package()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        manifest, record = archive.read("manifest.json"), archive.read("captures/0")
    assert load(rezipped(content)) == [2, 2]
    forged = record.replace(b'"n_ops":1', b'"n_ops":2')
    assert forged != record
    with pytest.raises(PackageError, match="captures/0 is not what the manifest says"):
        load(rezipped(content, captures_0=forged))
    with pytest.raises(PackageError, match="names other parts"):
        load(rezipped(content, captures_1=record))
    for name in ("../outside", "/etc/outside", "captures/../outside", "captures/0/x", "code.py"):
        with pytest.raises(PackageError, match="parts that no package has"):
            load(rezipped(content, **{name: b""}))
    bomb = rezipped(content, captures_0=bytes(1 << 24))
    with pytest.raises(PackageError, match="larger than it should be"):
        load(bomb, trust=True)
    other = json.loads(manifest)
    other["system"]["torch"] = "1.0"
    for trust in (False, True):
        with pytest.raises(PackageError, match="changed after it was signed"):
            load(rezipped(content, **{"manifest.json": json.dumps(other).encode()}), trust=trust)
    unsigned = rezipped(content, **{"signature.json": b"{}"})
    with pytest.raises(PackageError, match="not signed"):
        load(unsigned)
    forged_key = json.dumps({"key": key_id(KEY), "hmac": "0" * 64}).encode()
    with pytest.raises(PackageError, match="changed after it was signed"):
        load(rezipped(content, **{"signature.json": forged_key}), key=KEY)


def test_a_library_at_a_strange_place_is_refused() -> None:
    content, key = package(), signing_key(None)
    row = read_container(content).manifest["captures"][0]
    for place in ("../../x.so", "/tmp/x.so", "ab/" + "c" * 60 + "/../x.so"):
        with pytest.raises(PackageError, match="a library at"):
            load(changed(content, key, captures=[{**row, "libraries": {place: row["record"]}}]))


def test_nothing_runs_when_a_package_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "package"
    path.write_bytes(changed(package(), None, function={"named": ["os", "abort"], "code": ""}))
    shown = framelift.show_package(path)
    assert "package of a function: os.abort\nnot signed" in shown and "x: float32[2]: 1 operations" in shown
    assert main(["package", "--show", str(path)]) == 0 and capsys.readouterr().out.strip() == shown
    path.write_bytes(b"nothing")
    assert main(["package", "--show", str(path)]) == 2 and "no package" in capsys.readouterr().err


SCRIPT = """
import torch, framelift
model = torch.nn.Linear(2, 2)
compiled = torch.compile(model, backend="eager")
compiled(torch.ones(3, 2))
torch.compile(lambda x: x + 1, backend="eager")
"""


def test_the_command_packages_what_a_script_compiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # the command keeps what is compiled to the end of its process
    monkeypatch.setattr(compiling, "_compiled", compiling._compiled)
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SCRIPT)
    assert main(["package", str(script), "-o", str(out)]) == 0
    assert f"Linear in {out}" in capsys.readouterr().err
    model = torch.nn.Linear(2, 2)
    assert torch.equal(framelift.load_package(out, model)(torch.ones(3, 2)), model(torch.ones(3, 2)))
