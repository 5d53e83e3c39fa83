"""One seed of the law test: `python -m tests.law --seed N [--size S] [--reduce] [--show]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main() -> int:
    from law.kept import judge_kept
    from law.reduce import reduce
    from law.run import generator_of, size_of
    from law.runner import judge as judge_plain

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument(
        "--size", type=int, default=0, help="as printed by run.py; 0: the size run.py takes for this seed"
    )
    parser.add_argument("--reduce", action="store_true", help="make a failing program small before showing it")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--show", action="store_true", help="show the program even if it passes")
    parser.add_argument("--kind", choices=("plain", "more", "breaks", "facts", "kept"), default="plain")
    for kind in ("more", "breaks", "facts", "kept"):
        parser.add_argument(f"--{kind}", action="store_const", dest="kind", const=kind)
    options = parser.parse_args()
    judge = judge_kept if options.kind == "kept" else judge_plain
    program = generator_of(options.kind)(options.seed, options.size or size_of(options.seed))
    verdict = judge(program)
    if verdict.failure and options.reduce:
        program = reduce(program, lambda p: judge(p).failure is not None, options.seconds)
        verdict = judge(program)
    if verdict.failure or options.show:
        print(program.text())
    print(
        verdict.failure or "equal", f"({verdict.captures} captures, {verdict.graphs} graphs, breaks {verdict.breaks})"
    )
    return 1 if verdict.failure else 0


if __name__ == "__main__":
    sys.exit(main())
