"""Facts of classes are read without code of their metaclasses."""

from __future__ import annotations

from typing import Any

from framelift.vocabulary import class_reads


class Meta(type):
    asked: list[str] = []

    def __getattribute__(cls, name: str) -> Any:
        Meta.asked.append(name)
        return super().__getattribute__(name)


class Base(metaclass=Meta):
    inherited = 1


class Watched(Base):
    own = 2


def test_no_code_of_the_metaclass_runs() -> None:
    Meta.asked.clear()
    assert class_reads.mro_of(Watched) == (Watched, Base, object)
    assert class_reads.members_of(Watched)["own"] == 2 and "inherited" not in class_reads.members_of(Watched)
    assert class_reads.names_of(Watched) == (__name__, "Watched", "Watched")
    assert class_reads.bases_of(Watched) == (Base,)
    assert class_reads.has_member(Watched, "inherited") and not class_reads.has_member(Watched, "missing")
    assert Meta.asked == []
