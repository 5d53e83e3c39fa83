"""The modules that fill the tables of the call rule (calls/call_tables.py), imported for that alone.

A callable has one handler: `substitute` refuses a second one, so the order decides nothing.  A new module with
substitutes or rules is added here, and nowhere else.
"""

# ruff: noqa: F401
from __future__ import annotations

from ..autograd import autograd_function, differentiation, module_hooks, saved_tensors, tensor_hooks
from ..calls.pure import lookup
from ..higher_order import attention, control_flow, operators, regions, triton_kernels
from ..overriding import modes, subclasses, transforms
from ..recording import wrapper_results
from ..recording.rules import conversions, special_cases
from ..substitutes import marks
from ..substitutes.numbers import pure_calls
from ..substitutes.python import (
    abstract_classes,
    basics,
    called_back,
    class_building,
    code_objects,
    context_variables,
    copying,
    frame_access,
    identity,
    interpreter,
    lazy_containers,
    mappings,
    python_warnings,
)
from ..substitutes.torch import collectives, distributed_tensors, scripted, tools, torch_settings
