"""Which files, functions and classes are torch's own, or Python's.  `__module__` alone does not say it: a program may
write to it, and `functools.wraps` copies that of the function which it wraps.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any

import torch

from .class_reads import members_of, module_of, qualname_of

#: the folder of torch's files, with the separator behind it
TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
#: where Python's own library is, and what is installed beside it
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGES = os.path.join(_LIBRARY, "site-packages") + os.sep


def is_python_file(file: str) -> bool:
    """Return whether code of this file is of Python's own library."""
    return file.startswith((_LIBRARY, "<frozen ")) and not file.startswith(_PACKAGES)


def is_replacement(function: Any) -> bool:
    """Return whether what is found in a place of torch's is a function of the program's, put there before framelift was
    loaded: it is called as any other function.
    """
    if type(function) is not types.FunctionType:
        return False
    file = function.__code__.co_filename
    return not file.startswith(TORCH) and not is_python_file(file)


def _is_within(module: Any, package: str) -> bool:
    return type(module) is str and (module == package or module.startswith(f"{package}."))


def is_torch_function(function: Any, package: str = "torch") -> bool:
    """Return whether a Python function is one of torch's, of this package or module.

    A wrapper that torch puts around a function of the program has the name of the program's module, and is not.
    """
    return (
        type(function) is types.FunctionType
        and function.__code__.co_filename.startswith(TORCH)
        and _is_within(function.__module__, package)
    )


def is_torch_class(cls: type, package: str = "torch") -> bool:
    """Return whether a class is one of torch's, of this package or module.

    >>> is_torch_class(torch.nn.Linear), is_torch_class(torch.nn.Linear, "torch.optim")
    (True, False)
    >>> is_torch_class(type("Linear", (), {"__module__": "torch.nn.modules.linear"}))
    False
    """
    return is_class_of(cls, package)


def is_class_of(cls: type, package: str) -> bool:
    """Return whether a module of a package has the class under its name."""
    module = module_of(cls)
    if not _is_within(module, package):
        return False
    *path, last = qualname_of(cls).split(".")
    space: Any = vars(sys.modules.get(module) or types)
    for name in path:
        owner = space.get(name)
        if not issubclass(type(owner), type):
            return False
        space = members_of(owner)
    return space.get(last) is cls
