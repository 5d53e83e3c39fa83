"""Rules of csrc/: every function that CPython calls is behind the exception barrier."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
SOURCES = {path.name: path.read_text() for path in sorted(CSRC.glob("*")) if path.suffix in (".cpp", ".h")}
#: slots of types that hold functions of CPython's own, or no function
DATA_SLOTS = {
    "name",
    "basicsize",
    "itemsize",
    "flags",
    "doc",
    "members",
    "base",
    "dictoffset",
    "weaklistoffset",
    "vectorcall_offset",
    "version_tag",
    "dict",
    "mro",
    "free",
    "alloc",
}
OF_CPYTHON = re.compile(r"Py[A-Z]\w+|original_\w+")
BEHIND_BARRIER = re.compile(r"(slot|traversal)<\w+>|\w+\.rows")


def lines_of(pattern: str, *, besides: tuple[str, ...] = ()) -> list[tuple[str, re.Match[str]]]:
    """Each match in a line of code that is no comment."""
    found = []
    for name, text in SOURCES.items():
        for line in text.splitlines():
            code = line.split("//")[0]
            found += [(f"{name}: {line.strip()}", match) for match in re.finditer(pattern, code) if name not in besides]
    return found


@pytest.mark.parametrize(
    "word", ["PyMethodDef", "PyGetSetDef", "PyModule_AddFunctions", "PyType_FromSpec", "PyType_Slot"]
)
def test_tables_are_made_by_the_barrier(word: str) -> None:
    """A table row is made by method<f>() or getter<f>() alone, which wrap f.

    A pointer to a row of somebody else's is no table.
    """
    made = [line for line, _ in lines_of(rf"\b{word}\b(?!\s*\*)", besides=("barrier.h",))]
    assert not made, "\n".join(made)


def test_slots_of_types_are_behind_the_barrier() -> None:
    rows = lines_of(r"\btp_(\w+)\s*=\s*([^;=]+);")
    assert len(rows) > 20
    bare = [
        line
        for line, match in rows
        if match[1] not in DATA_SLOTS
        and not BEHIND_BARRIER.fullmatch(match[2].strip())
        and not OF_CPYTHON.fullmatch(match[2].strip())
    ]
    assert not bare, "\n".join(bare)


@pytest.mark.parametrize(
    "receiver",
    [
        r"request_code_extra\((?!freefunc)([^)]*)\)",
        r"^ +set_evaluator\(([^)]*)\)",
        r"->vectorcall\s*=([^;]*);",
        r"PyMODINIT_FUNC \w+\(\) \{ return ([^(]*)\(",
    ],
)
def test_callbacks_are_behind_the_barrier(receiver: str) -> None:
    rows = lines_of(receiver)
    assert rows
    bare = [line for line, match in rows if "slot<" not in match[1] and "previous" not in match[1]]
    assert not bare, "\n".join(bare)


def test_traversals_throw_nothing() -> None:
    """Half of a traversal corrupts memory: `traversal<f>` takes only functions that are declared noexcept."""
    for line, match in lines_of(r"tp_traverse\s*=\s*(\w+)<"):
        assert match[1] == "traversal", line


def test_no_exception_is_caught_and_forgotten() -> None:
    """Outside of the barrier, `catch` is for a property that some tensors do not have."""
    caught = [line for line, _ in lines_of(r"\bcatch\s*\(", besides=("barrier.h", "barrier.cpp"))]
    assert len(caught) == 1 and caught[0].startswith("tensor_check.cpp"), caught


def test_no_reference_outlives_the_interpreter() -> None:
    """Objects of C++ that live as long as the process are destroyed after CPython is gone.

    None of them owns references.
    """
    owning = [
        line
        for line, _ in lines_of(
            r"^static (?:thread_local )?(?:Ref\b|SavedError\b|std::\w+<.*\b(?:Ref|Verdict|Known)\b[^()]*>) \w+\s*[;={]"
        )
    ]
    assert not owning, "\n".join(owning)


def test_the_page_lists_the_files_with_tests_of_the_python_version() -> None:
    files = {
        f"csrc/{path.name}"
        for path in (Path(__file__).resolve().parents[2] / "csrc").glob("*")
        if "PY_VERSION_HEX" in path.read_text()
    }
    page = (Path(__file__).resolve().parents[2] / "docs" / "internals" / "csrc.md").read_text(encoding="utf8")
    sentence = page[page.index("What differs between CPython versions") :].partition("\n")[0]
    assert f"in {len(files)} files" in sentence and set(re.findall(r"`(csrc/[^`]*)`", sentence)) == files
