"""What a file of this package says of its kind: a record, whose parts `register` gives to the tables that ask for them.

The tables are those of the packages below.  No code there names a kind that has a file here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..boundary.becomes.containers import KINDS, CopyRule
from ..boundary.records import Shadow
from ..exits.instances import BASES, Base, instance
from ..exits.recipe import Node, Recipe, Text, Walk, base, exact
from ..exits.typefacts import TRIAL
from ..exits.write_back import WRITERS


@dataclass(frozen=True, slots=True)
class Feature:
    """A built-in type of mutable objects."""

    cls: type
    #: what an external one becomes: how it is copied and guarded, compared with what it was, and put back
    inside: CopyRule
    #: the statements that carry the changes of a copy to its original
    changes: Callable[[Walk, Shadow, type], list[Text]]
    #: the expression and statements that build one made inside
    built: Callable[[Walk, Node], Recipe]
    #: the same for the built-in part of an instance of a Python subclass
    as_base: Base
    #: arguments with which `__new__` makes some object of the type
    any_arguments: tuple[Any, ...] = ()


def register(feature: Feature) -> None:
    """Let the tables know a kind."""
    cls = feature.cls
    KINDS[cls], WRITERS[cls], BASES[cls] = feature.inside, feature.changes, feature.as_base
    exact(cls)(feature.built)
    base(cls)(instance)
    TRIAL[cls] = feature.any_arguments
