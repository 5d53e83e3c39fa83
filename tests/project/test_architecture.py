"""The documentation of the architecture: pictures are current, and what the pages name exists."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import architecture  # noqa: E402

SOURCE, DOCS = ROOT / "src" / "framelift", ROOT / "docs"
#: a record of what was measured when; the files it names were there then
DIARIES = {DOCS / "lab.md"}
PAGES = [ROOT / "README.md", *sorted(set(DOCS.rglob("*.md")) - DIARIES)]
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
#: files of CPython's own source
CPYTHON = {
    "Lib/opcode.py",
    "Lib/_opcode_metadata.py",
    "Lib/dis.py",
    "Include/internal/pycore_interpframe_structs.h",
    "Include/cpython/dictobject.h",
}

_FILE = re.compile(r"`([\w./-]+\.(?:py|cpp|h))(?:: ([\w.:]+))?`")
_FOLDER = re.compile(r"`((?:src|tests|csrc|tools|docs|benchmarks)(?:/[\w.]+)*)/?`")
_LINK = re.compile(r"\]\((?!https?:)([\w./-]*\w)(?:#[^)]*)?\)")


def file_named(path: str) -> Path | None:
    """The file that a page means: from the repository's root, or from src/framelift."""
    return next((base / path for base in (ROOT, SOURCE) if (base / path).is_file()), None)


def test_pictures_are_current() -> None:
    stale = [
        path.name
        for path, text in architecture.pictures().items()
        if not path.exists() or path.read_text(encoding="utf8") != text
    ]
    assert not stale, f"run python tools/architecture.py: {stale}"


def test_the_picture_shows_every_package_and_no_import_upwards() -> None:
    graph = architecture.own_imports()
    assert sorted(graph) == sorted([*PACKAGES, architecture.NATIVE])
    level = architecture._levels(graph)
    assert all(level[low] > level[high] for high, below in graph.items() for low in below)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf8")
    wrong = []
    for named, name in _FILE.findall(text):
        found = file_named(named)
        if found is None:
            wrong += [named] if named not in CPYTHON else []
        elif name and not architecture.defines(found, name):
            wrong.append(f"{named}: {name}")
    wrong += [folder for folder in _FOLDER.findall(text) if not (ROOT / folder).exists()]
    wrong += [
        link for link in _LINK.findall(text) if not (path.parent / link).exists() and not link.startswith("reference/")
    ]
    assert not wrong


def test_names_that_are_not_there_are_found() -> None:
    driver = SOURCE / "capture" / "driver.py"
    assert architecture.defines(driver, "Driver.capture") and architecture.defines(driver, "capture_lock")
    assert not architecture.defines(driver, "capture") and not architecture.defines(driver, "Driver.nothing")
    hook = ROOT / "csrc" / "hook.cpp"
    assert architecture.defines(hook, "rehearse_frame") and not architecture.defines(hook, "rehearse_nothing")


def test_the_way_of_a_call_passes_ten_functions_of_ten_packages() -> None:
    stations = [station for part in architecture.STATIONS.values() for station in part]
    assert len(stations) == 10 == len({station.package for station in stations})
    text = (DOCS / "internals" / "follow_one_call.md").read_text(encoding="utf8")
    at = 0
    for station in stations:
        assert architecture.defines(ROOT / station.path, station.function), station
        link = f"[`{station.function}`](../../{station.path})** (`{station.path}: {station.function}`)"
        assert link in text[at:], f"{link} is not on the page, or not in the order of the way"
        at = text.index(link, at)


def test_every_package_has_a_page_in_the_overview_and_in_the_navigation() -> None:
    pages = {path.stem for path in (DOCS / "internals").glob("*.md")}
    assert pages == {*PACKAGES, "csrc", "follow_one_call", "patches"}
    overview, navigation = (
        (DOCS / "design.md").read_text(encoding="utf8"),
        (ROOT / "mkdocs.yml").read_text(encoding="utf8"),
    )
    assert all(f"internals/{page}.md" in overview and f"internals/{page}.md" in navigation for page in pages)


@pytest.mark.parametrize("package", [*PACKAGES, "csrc"])
def test_a_package_page_has_its_parts(package: str) -> None:
    text = (DOCS / "internals" / f"{package}.md").read_text(encoding="utf8")
    assert all(part in text for part in ("**What belongs here:**", "## Invariants", "## Tests"))
    assert ("## Files" in text) is (package == "csrc"), "tools/docs.py adds the list of a package's Python files"


def test_the_native_page_names_its_files() -> None:
    """The header is named with its source file."""
    page = (DOCS / "internals" / "csrc.md").read_text(encoding="utf8")
    missing = [
        name for name in sorted({path.stem for path in (ROOT / "csrc").glob("*.*")}) if f"`csrc/{name}." not in page
    ]
    assert not missing, f"add them to docs/internals/csrc.md: {missing}"
