"""The torch-function mode of a rehearsal: it brings operators and torch calls of C code to the recorder."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

from .._core import id
from ..graph.fx.targets import WRITTEN_AS_OPERATORS, method_behind
from ..graph.metadata.facts import is_tensor_like
from .session import Recorder


class RecordingMode(TorchFunctionMode):
    """Sends every torch call to the recorder.  Torch takes the mode off the stack while this runs."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder: Recorder | None = recorder

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        recorder = self.recorder
        assert recorder is not None
        if recorder.callbacks.dispatch is not None and (
            recorder.modes
            or types
            and not recorder.subclasses_off
            and (recorder.overrides or any(map(is_tensor_like, types)))
        ):
            with self:  # what overrides is captured code, whose calls must come here again
                return recorder.callbacks.dispatch(func, tuple(types), args, kwargs)
        func = method_behind(func)
        if not kwargs:  # calls by name were seen by a probe: here it is an operator
            func = WRITTEN_AS_OPERATORS.get(id(func), func)
        return recorder.call_operation(func, args, kwargs or {})
