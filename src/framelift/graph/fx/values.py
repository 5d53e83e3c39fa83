"""Per-tensor records of one rehearsal: `Value` is one stand-in, `Storage` the memory it shares with others.

`Step` is one recorded operation; `Body` is the other kind of thing a step may be given: a graph of its own.
"""

from __future__ import annotations

from typing import Any

import torch

from ..._core import places
from ..metadata.facts import Facts
from ..metadata.fakes import UNKNOWN
from ..state.torch_state import State
from .targets import Target

#: the view of a leaf whose memory the program exchanged (`leaf.data = new`)
EXCHANGED = "exchanged"
AFTER_DATA = "use of a tensor after an assignment to its Tensor.data"


class ObjectFacts:
    """The metadata of an object that is no tensor, of which a graph is given the object itself."""

    __slots__ = ()
    dtype = None
    requires_grad = False
    is_leaf = True


class Storage:
    """Memory that one or more values look at.  `wrapped`: a tensor of a wrapper subclass is made of it; `shared`: it
    may be the memory of others too, since an object knows it, or it was chosen among several.
    """

    __slots__ = ("external", "shared", "values", "wrapped", "written")

    def __init__(self, external: bool) -> None:
        self.external = external
        self.values: list[Value] = []
        self.written = False
        self.wrapped = False
        self.shared = False


class Value:
    """One stand-in: what is known of it now, and where its node comes from.

    `view` is how it came to share its storage: "" (owner, or first seen), "view" (an ordinary differentiable
    view), or a word for a view that autograd treats specially ("detached", "no-grad", "multiple", "custom",
    "regained").  `exact` says that its strides are believed: fakes are sometimes wrong about them for operations
    on oddly laid out tensors.  `rooted`: a leaf that the program made, on purpose: "tensor" or "parameter", or
    "outside" for an external one that is a leaf from now on; `gathered`: and a backward inside has added to its
    `.grad`.  A result has `step` (the tape step that made it) and `path` (its place in the step's result: indices,
    and names of inner tensors); an input has `external`.
    """

    __slots__ = (
        "exact",
        "external",
        "facts",
        "gathered",
        "name",
        "path",
        "rooted",
        "stand_in",
        "step",
        "storage",
        "view",
    )

    def __init__(self, stand_in: torch.Tensor, facts: Facts, storage: Storage, view: str = "") -> None:
        self.stand_in = stand_in
        self.facts: Facts = facts
        self.storage = storage
        self.view = view
        self.exact = True
        self.external: torch.Tensor | None = None
        self.name = ""
        self.rooted = ""
        self.gathered = False
        self.step: Step | None = None
        self.path: tuple[int | str, ...] = ()
        storage.values.append(self)


class Body:
    """A sub-graph as an argument of a step: it becomes an attribute of the graph module, called `name`."""

    __slots__ = ("module", "name")

    def __init__(self, module: Any, name: str) -> None:
        self.module = module
        self.name = name


class Step:
    """One recorded operation: arguments as `take` keeps them, `inputs` the values among them, `places` the program's
    frames.

    `effect_level` is what fakes.py says of it, unknown where a call is not one operation of torch's.  `modules`: the
    modules being called, where somebody wants to know (export/strict_session.py).
    """

    __slots__ = ("args", "custom", "effect", "effect_level", "inputs", "kwargs", "modules", "places", "state", "target")

    def __init__(
        self,
        target: Target,
        args: list[Any],
        kwargs: dict[str, Any],
        inputs: list[Value],
        state: State,
        effect: bool,
        effect_level: int = UNKNOWN,
    ) -> None:
        self.effect_level = effect_level
        self.target = target
        self.args = args
        self.kwargs = kwargs
        self.inputs = inputs
        self.state = state
        self.effect = effect
        self.places = places()
        self.modules: Any = None
        self.custom: Any = None  # what the program says of it

    def __repr__(self) -> str:
        return f"<step {self.target.name}{' !' if self.effect else ''}>"
