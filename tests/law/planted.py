"""Planted defects: framelift with some guards left out.  The law test must find every one of them.

python tests/law/planted.py --first 0 --programs 300     # search: which seeds find which defect
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from framelift.guards.native_program import build_program  # noqa: E402
from framelift.capture import driver  # noqa: E402
from law.generate import generate  # noqa: E402
from law.run import size_of  # noqa: E402
from law.runner import judge  # noqa: E402

__all__ = ["DEFECTS", "NOT_FOUND", "SEEDS", "finds", "planted"]

#: name -> what is left out: guard kinds, or a condition of the whole program.  Kinds that back each other up (another
#: function has other code, another class other dunder methods) are also left out together.
DEFECTS: dict[str, frozenset[str]] = {
    **{
        kind: frozenset({kind})
        for kind in (
            "TYPE",
            "IS",
            "EQ",
            "CODE",
            "LEN",
            "KEYS",
            "ABSENT",
            "NO_LOOKUP",
            "DUNDERS",
            "TENSOR",
            "SAME",
            "distinct",
            "state",
        )
    },
    "functions": frozenset({"IS", "CODE"}),
    "classes": frozenset({"TYPE", "DUNDERS", "NO_LOOKUP"}),
    "absences": frozenset({"ABSENT", "NO_LOOKUP", "KEYS"}),
    "sizes": frozenset({"LEN", "KEYS"}),
}

#: kinds that the random programs do not reach, with the reason
NOT_FOUND = {
    "HAS_KEY": "programs do not ask which of two equal keys a dictionary holds; tested with the kinds of guards",
    "EMPTY": "programs do not empty and fill closure cells",
    "CHECK": "rare Python predicates of single substitutes, each tested beside it",
    "JOINT": "relations of numbers of several small tensors, tested beside them",
    "UNMARKED": "programs do not mark functions between their calls; tested with the kinds of guards",
}

#: seeds whose programs find the defect, from the search above; to be searched again when the generator changes
SEEDS: dict[str, tuple[int, ...]] = {
    "TYPE": (13, 159),
    "IS": (81, 101),
    "EQ": (2, 4),
    "CODE": (287,),
    "LEN": (29, 67),
    "KEYS": (5, 52),
    "ABSENT": (160, 281),
    "NO_LOOKUP": (72, 196),
    "DUNDERS": (310,),
    "TENSOR": (15, 127),
    "SAME": (102, 179),
    "state": (365,),
    "functions": (81, 101),
    "classes": (13, 72),
    "absences": (5, 52),
    "sizes": (5, 29),
    "distinct": (765, 1049),
}


@contextlib.contextmanager
def planted(defect: str) -> Iterator[None]:
    """Build every guard program without what `defect` names: a row of DEFECTS, or a kind."""
    without = DEFECTS.get(defect, frozenset({defect}))

    def leaky(guards: Sequence[Any], inputs: Any, externals: Any, distinct: Any, state: Any) -> Any:
        kept = [g for g in guards if g.kind not in without]
        return build_program(
            kept, inputs, externals, () if "distinct" in without else distinct, None if "state" in without else state
        )

    with mock.patch.object(driver, "build_program", leaky):
        yield


def finds(seed: int, defect: str) -> bool:
    """Does the program of this seed pass as it should, and fail with the defect."""
    program = generate(seed, size_of(seed))
    with planted(defect):
        failed = judge(program).failure is not None
    return failed and judge(program).failure is None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--want", type=int, default=2, help="seeds wanted per defect")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[int]] = {name: [] for name in DEFECTS}
    for seed in range(options.first, options.first + options.programs):
        program = generate(seed, size_of(seed))
        if judge(program).failure:
            print(f"seed {seed} fails as it is", flush=True)
            continue
        for name, seeds in found.items():
            if len(seeds) < options.want:
                with planted(name):
                    failed = judge(program).failure is not None
                if failed:
                    seeds.append(seed)
                    print(f"{name}: {seeds}", flush=True)
        if all(len(seeds) >= options.want for seeds in found.values()):
            break
    print("SEEDS =", {name: tuple(seeds) for name, seeds in found.items()})


if __name__ == "__main__":
    main()
