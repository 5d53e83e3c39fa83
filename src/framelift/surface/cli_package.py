"""`python -m framelift package`: write packages of all that a script compiles, or show one."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import torch

from .. import config
from ..capture.driver import Driver
from ..exc import FrameliftError
from ..packages.package import save_package
from ..packages.show import show_package
from . import cli, compiling


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--show", metavar="FILE", help="say what is in a package, without running anything of it")
    parser.add_argument(
        "-o", "--out", default="framelift_package", help="the file (default: %(default)s); of several, a folder"
    )
    parser.add_argument("--key", help="a file with the key to sign with (default: the user's own)")
    parser.add_argument("--unsigned", action="store_true", help="do not sign")
    parser.add_argument("--weights", action="store_true", help="put the weights of modules in their packages")
    cli.add_script(parser)


def _package(options: argparse.Namespace) -> int:
    if options.show is not None:
        return _show(options)
    kept = compiling.keep_compiled()
    before = set(map(id, kept))
    with config.patch(record_captures=True):
        status = cli.run(options)
    if status is None:
        return 2
    called = sorted([one for one in kept if one.entries and id(one) not in before], key=_name)
    key = False if options.unsigned else options.key
    failed = sum(not _save(one, path, key, options.weights) for one, path in zip(called, _paths(options.out, called)))
    if not called:
        print("framelift: nothing was captured, so there is nothing to package", file=sys.stderr)
    return status or (1 if failed or not called else 0)


def _name(compiled: Any) -> str:
    driver = compiled.miss
    return driver.name if isinstance(driver, Driver) and driver.name else "package"


def _paths(out: str, called: list[Any]) -> list[Path]:
    if len(called) == 1:
        return [Path(out)]
    Path(out).mkdir(parents=True, exist_ok=True)
    return [Path(out) / f"{number}_{re.sub(r'[^A-Za-z0-9]+', '_', _name(one))}" for number, one in enumerate(called)]


def _save(compiled: Any, path: Path, key: Any, weights: bool) -> bool:
    try:
        save_package(compiled, path, key=key, weights=weights and isinstance(compiled.receiver, torch.nn.Module))
    except (FrameliftError, OSError) as error:
        print(f"framelift: {_name(compiled)} cannot be packaged: {error}", file=sys.stderr)
        return False
    print(f"framelift: {_name(compiled)} in {path}", file=sys.stderr)
    return True


def _show(options: argparse.Namespace) -> int:
    try:
        print(show_package(options.show, options.key))
    except (FrameliftError, OSError) as error:
        print(f"framelift: {error}", file=sys.stderr)
        return 2
    return 0


cli.COMMANDS["package"] = ("write packages of all that a script compiles, or show one", _arguments, _package)
