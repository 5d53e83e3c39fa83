"""What rules of the recorder, and handlers of calls, may ask of a rehearsal: two contracts.

They name no module that has rules or handlers, so that these import the contracts and nobody waits for anybody.  What
keeps them: `recorder.TapeRecorder` and `rehearsal.session.Rehearsal`.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import torch

from ..graph.symbols.meanings import NO_MARKS, Marks
from .recorder_parts import Callbacks, Gradients, Options

if TYPE_CHECKING:
    from ..boundary.records import Shadow
    from ..boundary.world import World
    from ..graph.fx.targets import Target
    from ..graph.fx.values import Step, Storage, Value
    from ..graph.metadata.cache import Outcome
    from ..graph.metadata.facts import Facts
    from ..graph.metadata.fakes import Fakes
    from ..graph.metadata.live_fakes import Live, LiveOutcome
    from ..graph.metadata.wrapper_fakes import Wrapped
    from ..graph.state.random_draws import Drawing
    from ..graph.state.settings import SettingChanges
    from ..graph.state.torch_state import SavedState
    from ..graph.symbols.environment import Symbols
    from ..vocabulary.origins import Origin


class Recorder(Protocol):
    """The tape, and the stand-ins of tensors and numbers."""

    options: Options
    callbacks: Callbacks
    gradients: Gradients
    tape: list[Step]  # of the body being recorded, if there is one
    symbols: Symbols | None
    violated: dict[torch.device, torch.Tensor]
    written: list[Value]
    drawing: Drawing
    settings: SettingChanges
    fakes: Fakes
    wrapped: Wrapped | None
    saved: SavedState | None
    storages: dict[int, Storage]
    modes: list[Any]  # the program's own torch-function modes, outermost first
    annotations: list[dict[str, Any]]
    bodies: list[list[Step]]
    own_outcomes: dict[Any, Any]
    known_values: Any
    scripts: Any
    cache: Any
    chosen: Any
    effect_level: int
    regions: int
    exchanged: bool
    overrides: bool
    subclasses_off: bool
    assumed: bool
    undoes: bool

    by_stand_in: dict[int, Value]  # by its id

    @property
    def live(self) -> Live: ...
    @property
    def has_tensors(self) -> bool: ...
    def in_transform(self) -> bool: ...
    def inputs(self) -> list[Value]: ...
    def values(self) -> list[Value]: ...
    def tape_is_a_body(self) -> bool: ...
    def is_stand_in(self, obj: Any) -> bool: ...
    def value_of(self, stand_in: Any) -> Value: ...
    def external(self, stand_in: torch.Tensor) -> torch.Tensor | None: ...
    def stand_in(
        self, tensor: torch.Tensor, name: str = "", dims: frozenset[int] = frozenset(), marks: Marks = NO_MARKS
    ) -> torch.Tensor: ...
    def input_value(self, tensor: torch.Tensor) -> Value: ...
    def input_facts(self) -> dict[int, Any]: ...
    def adopt(self, value: Value) -> torch.Tensor: ...
    def adopt_input(self, value: Value, external: Any, name: str) -> None: ...
    def retyped(self, stand_in: torch.Tensor, kind: type) -> torch.Tensor: ...
    def example_of(self, facts: Any) -> torch.Tensor: ...
    def known(self, tensor: torch.Tensor, outside: bool = False) -> torch.Tensor | None: ...
    def shown(self, result: Any) -> Any: ...
    def with_symbols(self) -> Symbols: ...
    def with_wrappers(self) -> Wrapped: ...
    def attribute(self, stand_in: torch.Tensor, name: str) -> Any: ...
    def set_attribute(self, stand_in: torch.Tensor, name: str, new: Any) -> None: ...
    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def call_operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def record(
        self,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        gives_values: bool = False,
        keep: bool = False,
    ) -> Any: ...
    def record_getter(self, target: Target, stand_in: torch.Tensor) -> Any: ...
    def append(self, target: Target, values: list[Value]) -> None: ...
    def note_effect(self, target: Target, outcome: Outcome | LiveOutcome, found: list[Value]) -> None: ...
    def move(self, target: Target, args: Sequence[Any], source: Value, facts: Facts) -> torch.Tensor: ...
    def replay(self, name: str, asked: Sequence[Value], then: Callable[[list[Any]], Any]) -> Any: ...
    def replay_views(self, name: str, first: Value, steps: Sequence[Step], asked: Sequence[Value]) -> list[Any]: ...


class Session(Protocol):
    """One rehearsal of a frame."""

    function: types.FunctionType  # of the root
    function_origin: Origin
    world: World
    features: dict[Any, Any]  # typed state of each feature (vocabulary/feature_state.py)
    moment: Any  # of the call: torch's state, modes
    state: Any
    result: Any
    active_modes: list[Any]
    modes_before: list[Any]
    leaves_modes: bool
    exporting: bool
    fullgraph: bool
    may_break: bool
    blocks: Any  # of error_on_graph_break
    is_stopped: bool
    has_texts: bool
    keep_functions: bool
    example: Callable[[Any], Any] | None
    addresses: set[int]
    pinned_addresses: set[int]
    own_answers: list[str]

    @property
    def recorder(self) -> Recorder: ...
    def is_stand_in(self, obj: Any) -> bool: ...
    def shadow_of(self, obj: Any) -> Shadow | None: ...
    def load_attr(self, obj: Any, name: str) -> Any: ...
    def load_cell(self, cell: types.CellType, name: str | tuple[str]) -> Any: ...
    def load_tensor(self, tensor: torch.Tensor, name: str) -> Any: ...
    def import_name(self, globals_: dict[str, Any], level: int, fromlist: Any, name: str) -> Any: ...
    def classify(self, callable_: Any) -> tuple[int, Any]: ...
    def note_class(self, cls: type) -> None: ...
    def read_texts(self) -> None: ...
    def text_is_read(self) -> NoReturn: ...
