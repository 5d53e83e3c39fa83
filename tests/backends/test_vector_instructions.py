"""Which vector instructions Inductor takes, and which it tries."""

from __future__ import annotations

import types

import pytest
from torch._inductor import config, cpu_vec_isa

from framelift.backends.vector_instructions import _best_first, try_only_the_best


class Instructions:
    """A set of instructions, as torch describes one: true where a program with them can be loaded."""

    def __init__(self, name: str, works: bool) -> None:
        self.name, self.works, self.tried = name, works, 0

    def __str__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        self.tried += 1
        return self.works


def sets(*works: bool) -> list[Instructions]:
    return [Instructions(name, one) for name, one in zip(("amx_tile", "avx512 avx512_vnni", "avx512", "avx2"), works)]


@pytest.mark.parametrize(
    "works, best", [((True, True, True, True), 1), ((True, False, True, True), 2), ((True, False, False, False), None)]
)
def test_the_best_one_that_works(works, best, monkeypatch):
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    known = sets(*works)
    module = types.SimpleNamespace(
        x86_isa_checker=lambda: ["avx2", "avx512", "avx512_vnni"], supported_vec_isa_list=known
    )
    valid = _best_first(lambda: [one for one in known[1:] if one.works], module)
    assert valid() == ([] if best is None else [known[best]]) == valid()
    assert [one.tried for one in known] == [0, *(int(best is None or place <= best) for place in (1, 2, 3))]
    with config.patch("cpp.simdlen", 256):
        assert valid() == [one for one in known[1:] if one.works]
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert valid() == [one for one in known[1:] if one.works]


def test_other_processors_are_asked_as_torch_does():
    module = types.SimpleNamespace(x86_isa_checker=list, supported_vec_isa_list=sets(True, True, True, True))
    every = sets(True)
    assert _best_first(lambda: every, module)() is every


def test_it_is_torch_that_asks():
    try_only_the_best()
    asked = cpu_vec_isa.valid_vec_isa_list
    try_only_the_best()
    assert cpu_vec_isa.valid_vec_isa_list is asked
    assert cpu_vec_isa.pick_vec_isa() in (*cpu_vec_isa.valid_vec_isa_list(), cpu_vec_isa.invalid_vec_isa)
