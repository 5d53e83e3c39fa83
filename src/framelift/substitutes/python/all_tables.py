"""The substitutes for Python itself and its standard library, put together: importing this module fills the registry with them."""

from __future__ import annotations

from ..numbers import in_containers
from ..numpy import functions, numpy_random
from . import (
    abstract_classes, syntax_trees, caches, called_back, class_building, code_objects, context_variables, copying,
    single_dispatch, frame_access, identity, mappings, operator_module, pickling, printing, log_levels,
    python_random, interpreter, lazy_containers, python_warnings, weak_references,
)
from ..torch import cuda, torch_settings

__all__: list[str] = []
