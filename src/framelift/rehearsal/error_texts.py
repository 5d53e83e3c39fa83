"""Texts of errors that C code raised: they name classes and modules, and names may change between calls.

A handler of the program sees the text, so each class met so far whose name is in it keeps that name: a guard.
Where C code calls a function with arguments that do not fit its parameters, no frame begins, and so no probe sees the
call: of the functions met so far, each whose name is in the text of a TypeError keeps its parameters.
Texts that the program itself made are no different: then the guard is one too many, and holds.
"""

from __future__ import annotations

import itertools
import types
from typing import Any

from .. import _core
from .._core import id, is_a
from ..boundary.attributes.classes import text_of_class
from ..boundary.becomes.opaque import Opaque
from ..boundary.lazy.instance_dict import instance_entry
from ..boundary.world import World
from ..vocabulary.class_reads import flags_of, mro_of, name_of
from ..vocabulary.reasons import Interrupt
from .called_functions import note_unbound

_TEXTS = ("__name__", "__qualname__")
_NAMES = [type.__dict__[name].__get__ for name in _TEXTS]
_args = BaseException.__dict__["args"].__get__  # past properties of the program's own errors
_obj = AttributeError.__dict__["obj"].__get__
_PLACEHOLDER = name_of(Opaque)  # C code names the class that it sees, where the program has another
_IMMUTABLE = 1 << 8  # the flag of classes that stay as they are
_CALLED = (types.FunctionType, types.MethodType, staticmethod, classmethod)


class ClassNames:
    """The names of the classes that a rehearsal met, brought up to date where a handler begins."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.looked_at = 0  # that many guards
        self.met = 0  # that many objects: they are in the order of their coming, and none is taken out
        self.known: set[int] = set()
        self.classes: list[tuple[type, list[str]]] = []  # with their names; guarded ones are taken out
        self.functions: dict[int, types.FunctionType] = {}  # by their ids; guarded ones are taken out

    def caught(self, error: BaseException) -> None:
        """A handler of the program begins."""
        texts = [text for text in _args(error) if type(text) is str]
        if not texts:
            return
        if is_a(error, TypeError) and any(_PLACEHOLDER in text for text in texts):
            raise Interrupt("opaque-object", "that an error names")
        self._look()
        if is_a(error, AttributeError):
            self._meet_object(_obj(error))
        open_ones, said = [], "\n".join(texts)
        for cls, names in self.classes:
            if names[0] in said or names[1] in said:
                for name in _TEXTS:
                    text_of_class(self.world, cls, name)
                if is_a(error, TypeError):  # `cls[...]`, perhaps: C code looked for what would answer
                    self.world.classes.lookup(cls, "__class_getitem__")
            else:
                open_ones.append((cls, names))
        self.classes = open_ones
        if is_a(error, TypeError):
            self._may_not_fit(texts)

    def _may_not_fit(self, texts: list[str]) -> None:
        for function in list(self.functions.values()):
            if any(f"{function.__qualname__}()" in text for text in texts):
                del self.functions[id(function)]
                if not _core.is_internal(function):
                    note_unbound(self.world, function)

    def _look(self) -> None:
        guards = self.world.guards
        for value in _core.named_by_guards(guards, self.looked_at):
            if is_a(value, type):
                self._meet(value)
            else:
                self._meet_function(value)
        self.looked_at = len(guards)
        memo, known = self.world.memo, self.known
        for record in list(itertools.islice(memo.values(), self.met, None)):
            cls = type(record.original)
            if id(cls) not in known:
                self._meet(cls)
            if is_a(record.original, _CALLED):
                self._meet_function(record.original)
        self.met = len(memo)

    def _meet_function(self, value: Any) -> None:
        if not is_a(value, types.FunctionType):
            value = value.__func__
        if is_a(value, types.FunctionType) and id(value) not in self.known:
            self.known.add(id(value))
            self.functions[id(value)] = value

    def _meet(self, cls: type) -> None:
        if id(cls) in self.known:
            return
        for one in (*mro_of(cls), type(cls)):
            if id(one) not in self.known:
                self.known.add(id(one))
                self.world.keep.append(one)
                if not flags_of(one) & _IMMUTABLE:
                    self.classes.append((one, [read(one) for read in _NAMES]))

    def _meet_object(self, obj: Any) -> None:
        """Note the object in which an attribute was looked up."""
        if is_a(obj, types.ModuleType):
            if not _core.is_internal(obj):
                instance_entry(self.world, obj, "__name__")
        else:
            self._meet(obj if is_a(obj, type) else type(obj))
