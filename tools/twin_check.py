"""Checks twins against CPython itself, and prints what making them costs.

    python tools/twin_check.py structure [FOLDER]     every code object of the standard library, or of a folder
    python tools/twin_check.py behaviour [TEST ...]   CPython's own tests, plain and as twins, outcome by outcome
    python tools/twin_check.py cost                   µs of CPU per original instruction

Works with any supported CPython, with or without torch.  The exit status is 0 when no defect was found.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

# `bytecode` stands on its own: importing it through framelift would need torch.
_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT / "src" / "framelift"), str(_ROOT / "tests" / "bytecode")]

from bytecode.decode import instructions  # noqa: E402
from bytecode.maker import AnyProbe, make_twin  # noqa: E402
from twin_support.checker import check_round_trip, check_structure, library_code  # noqa: E402
from twin_support.trial import Trial  # noqa: E402

TESTS = """
    test_abc test_asyncgen test_augassign test_binop test_bool test_builtin test_call test_class test_collections
    test_compare test_contextlib test_contextlib_async test_copy test_coroutines test_dataclasses test_decorators
    test_deque test_descr test_descrtut test_dict test_dictcomps test_dictviews test_dynamic
    test_dynamicclassattribute test_enum test_exception_group test_exception_hierarchy test_exception_variations
    test_exceptions test_except_star test_extcall test_fractions test_fstring test_funcattrs test_functools
    test_generator_stop test_generators test_genericclass test_genexps test_global test_grammar test_hash test_heapq
    test_int test_isinstance test_iter test_iterlen test_itertools test_json test_keywordonlyarg test_list
    test_listcomps test_metaclass test_named_expressions test_opcodes test_operator test_ordered_dict test_patma
    test_pickle test_positional_only_arg test_pow test_property test_raise test_range test_re test_reprlib
    test_scope test_set test_setcomps test_slice test_sort test_statistics test_string test_string_literals
    test_subclassinit test_super test_textwrap test_traceback test_tuple test_type_annotations test_typechecks
    test_types test_typing test_unary test_unittest.test_case test_unpack test_unpack_ex test_userdict test_userlist
    test_userstring test_weakref test_weakset test_with test_yield_from test_zipfile
""".split()

#: why some outcomes differ although the twins are right: the pass-through probes are Python code
EXPECTED: dict[str, tuple[str, ...]] = {
    "a probe's own frame shows in a traceback": (
        "test_contextlib*.test_exit_exception_traceback",
        "test_exceptions.NameErrorTests.test_name_error_suggestions*",
        "test_traceback.*.test_name_error_*",
        "test_traceback.*CaretTests.test_byte_offset_with_emojis_term_highlight",
        "test_traceback.*CaretTests.test_caret_in_type_annotation",
        "test_traceback.*CaretTests.test_wide_characters_unicode_with_problematic_byte_offset",
    ),
    "probes need recursion depth of their own": (
        "test_call.TestRecursion.test_super_deep",
        "test_exceptions.ExceptionTests.test_recursion_in_except_handler",
        "test_traceback.*Format*.test_recursive_traceback*",
    ),
    "import_from runs an import statement, which has a warning registry of its own": (
        "test_typing.IOTests.test_io_submodule",
        "test_typing.RETests.test_re_submodule",
    ),
}


def expected(name: str) -> str | None:
    """Why a test's outcome is known to differ."""
    return next(
        (
            reason
            for reason, patterns in EXPECTED.items()
            if any(fnmatch(name.removeprefix("test."), pattern) for pattern in patterns)
        ),
        None,
    )


def structure(folder: Path | None) -> int:
    """Round trip and structure of every code object; the number of defects."""
    codes = defects = 0
    start = time.process_time()
    for code in library_code(folder):
        codes += 1
        for defect in check_round_trip(code) + check_structure(code):
            defects += 1
            print(f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}: {defect}")
    print(f"structure: {codes} code objects, {defects} defects, {time.process_time() - start:.0f} s")
    return defects


def cost(folder: Path | None) -> None:
    """Print the cost of make_twin per original instruction."""
    codes = list(library_code(folder or Path(os.__file__).parent / "asyncio"))
    count = sum(1 for code in codes for _ in instructions(code.co_code))
    probes, best = AnyProbe(), float("inf")
    gc.disable()
    for _ in range(5):
        start = time.process_time()
        for code in codes:
            make_twin(code, probes)
        best = min(best, time.process_time() - start)
    print(
        f"cost: {count} instructions of {len(codes)} code objects, {1e6 * best / count:.2f} µs per instruction, "
        f"{1e6 * best / len(codes):.0f} µs per code object"
    )


def run_one(test: str, mode: str) -> None:
    """In a process of its own: run one test module and print its outcomes as JSON."""
    import unittest

    made = Trial()
    if mode != "plain":
        made.immerse()
    outcomes: dict[str, str] = {}

    class Result(unittest.TestResult):
        def startTest(self, test: unittest.TestCase) -> None:
            super().startTest(test)
            outcomes[test.id()] = "ok"

        def addError(self, test: unittest.TestCase, err: object) -> None:
            outcomes[test.id()] = "error\n" + self._exc_info_to_string(err, test)

        def addFailure(self, test: unittest.TestCase, err: object) -> None:
            outcomes[test.id()] = "failure\n" + self._exc_info_to_string(err, test)

        def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: object) -> None:
            if err is not None:
                outcomes[test.id()] = "failure\n" + self._exc_info_to_string(err, test)

        def addSkip(self, test: unittest.TestCase, reason: str) -> None:
            outcomes[test.id()] = "skipped"

    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{test}")
    suite.run(Result())
    print("\nOUTCOMES " + json.dumps({"outcomes": outcomes, "twins": len(made)}))


def _outcomes(test: str, mode: str) -> tuple[dict[str, str], int]:
    done = subprocess.run([sys.executable, __file__, "one", test, mode], capture_output=True, text=True, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("OUTCOMES ")]
    if not lines:
        return {"(process)": f"status {done.returncode}\n{done.stderr[-2000:]}"}, 0
    found = json.loads(lines[-1].removeprefix("OUTCOMES "))
    return found["outcomes"], found["twins"]


def behaviour(tests: list[str], verbose: bool) -> int:
    """Run tests plain and as twins; the number of tests whose outcome differs without being expected."""
    total = differing = known = twins = 0
    for test in tests or TESTS:
        plain, _ = _outcomes(test, "plain")
        twinned, made = _outcomes(test, "twins")
        twins += made
        total += len(plain)
        for name in sorted({*plain, *twinned}):
            before, after = plain.get(name, "missing"), twinned.get(name, "missing")
            if before.split("\n")[0] == after.split("\n")[0]:
                continue
            reason = expected(name)
            known += reason is not None
            differing += reason is None
            if reason is None or verbose:
                last = after.strip().split("\n")[-1]
                print(f"{name}: {before.split(chr(10))[0]} -> {after.split(chr(10))[0]}: {last[:150]} {reason or ''}")
                if verbose:
                    print(after)
    print(f"behaviour: {total} tests, {twins} twins, {differing} differ, {known} differ as expected")
    return differing


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("structure", "behaviour", "cost", "one"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    folder = Path(options.names[0]) if options.names else None
    if options.what == "one":
        run_one(*options.names)
        return 0
    if options.what == "cost":
        cost(folder)
        return 0
    if options.what == "structure":
        return bool(structure(folder))
    return bool(behaviour(options.names, options.verbose))


if __name__ == "__main__":
    sys.exit(main())
