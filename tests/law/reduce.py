"""Makes a failing program small.

Leaves out statements and changes, and replaces expressions by their parts, while it still fails.
"""

from __future__ import annotations

import ast
import copy
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from .generate import Program

__all__ = ["reduce"]


def reduce(program: Program, fails: Callable[[Program], bool], seconds: float = 120.0) -> Program:
    """A smaller program for which `fails` still holds; stops after `seconds`."""
    end = time.monotonic() + seconds
    best, start, progress = program, 0, False
    while time.monotonic() < end:
        found = None
        for number, candidate in enumerate(itertools.islice(_candidates(best), start, None), start):
            if time.monotonic() > end:
                break
            if _fails(candidate, fails):
                found = number, candidate
                break
        if found is not None:
            # Go on where it succeeded: what was tried before mostly still fails to help.
            start, best, progress = *found, True
        elif progress:
            start, progress = 0, False
        else:
            break
    return best


def _fails(candidate: Program, fails: Callable[[Program], bool]) -> bool:
    try:
        return fails(candidate)
    except Exception:  # noqa: BLE001  a candidate that is no program at all is no repro
        return False


def _candidates(program: Program) -> Iterator[Program]:
    changes = program.changes
    for keep in range(1, len(changes)):
        yield replace(program, changes=changes[:keep])
    for i in range(1, len(changes)):
        yield replace(program, changes=changes[:i] + changes[i + 1 :])
        for j in range(len(changes[i])):
            fewer = changes[i][:j] + changes[i][j + 1 :]
            yield replace(program, changes=changes[:i] + (fewer,) + changes[i + 1 :])
    if program.backward:
        yield replace(program, backward=False)
    tree = ast.parse(program.source)
    for edited in _smaller_trees(tree):
        try:
            yield replace(program, source=ast.unparse(ast.fix_missing_locations(edited)))
        except (ValueError, AttributeError, TypeError):
            continue


def _smaller_trees(tree: ast.Module) -> Iterator[ast.Module]:
    """Trees with one statement less, one block unwrapped, or one expression replaced by a part of it.

    Large steps first.
    """
    blocks = [(path, len(block)) for path, block in _blocks(tree)]
    for path, length in blocks:
        for index in reversed(range(length)):
            for unwrap in (False, True):
                edited = copy.deepcopy(tree)
                block = _at(edited, path)
                node = block[index]
                if (
                    unwrap
                    and not getattr(node, "body", None)
                    or unwrap
                    and isinstance(node, (ast.FunctionDef, ast.ClassDef))
                ):
                    continue
                block[index : index + 1] = node.body if unwrap else []
                if not block:
                    if isinstance(node, ast.Pass):
                        continue
                    block.append(ast.Pass())
                yield edited
    expressions = sum(1 for _ in _expressions(tree))
    for index in range(expressions):
        parts = len(_parts(_nth(tree, index)[2]))
        for part in range(parts):
            edited = copy.deepcopy(tree)
            owner, place, node = _nth(edited, index)
            _replace(owner, place, _parts(node)[part])
            yield edited


def _blocks(tree: ast.AST, path: tuple = ()) -> Iterator[tuple[tuple, list[ast.stmt]]]:
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(tree, name, None)
        if isinstance(block, list):
            if name not in ("handlers", "cases") and block:
                yield (*path, name), block
            for i, child in enumerate(block):
                yield from _blocks(child, (*path, name, i))


def _at(tree: ast.AST, path: tuple) -> list[ast.stmt]:
    found = tree
    for step in path:
        found = found[step] if isinstance(step, int) else getattr(found, step)
    return found


def _expressions(tree: ast.Module) -> Iterator[tuple[ast.AST, tuple, ast.expr]]:
    """Compound expressions that are read, within functions only: the prelude's values stay."""
    for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
        for owner in ast.walk(function):
            for name, value in ast.iter_fields(owner):
                for index, child in enumerate(value if isinstance(value, list) else [value]):
                    loads = isinstance(getattr(child, "ctx", ast.Load()), ast.Load)
                    if isinstance(child, ast.expr) and loads and _parts(child):
                        yield owner, (name, index if isinstance(value, list) else None), child


def _nth(tree: ast.Module, index: int) -> tuple[ast.AST, tuple, ast.expr]:
    for i, found in enumerate(_expressions(tree)):
        if i == index:
            return found
    raise IndexError(index)


def _parts(node: ast.expr) -> list[ast.expr]:
    return [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr) and not isinstance(c, ast.Starred)]


def _replace(owner: ast.AST, place: tuple, value: ast.expr) -> None:
    name, index = place
    if index is None:
        setattr(owner, name, value)
    else:
        getattr(owner, name)[index] = value
