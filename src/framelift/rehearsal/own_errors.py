"""Exceptions of framelift's own code that are not meant for the program.

A handler may raise what the program is to see: it says so with `raise`, or lets through what a call gave.  An
attribute that None or an object of framelift's own does not have, a name that is not there, and a failed assertion
are nobody's intention: such a rehearsal ends as a defect.
"""

from __future__ import annotations

from opcode import opname
from typing import Any

from .. import _core
from .._core import is_a
from ..exc import InternalError
from ..torch_ports.port import MissingPart
from ..vocabulary.class_reads import module_of, name_of
from ..vocabulary.own_code import is_own_code
from ..vocabulary.reasons import Interrupt

_NAMED = __name__.partition(".")[0]


def _is_own(obj: Any) -> bool:
    return obj is None or module_of(type(obj)).partition(".")[0] == _NAMED


#: type of exception -> whether one that an instruction of ours gave is a fault
_FAULTS: dict[type[BaseException], Any] = {
    AttributeError: lambda instruction, error: (
        instruction in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR") and _is_own(error.obj)
    ),
    NameError: lambda instruction, error: instruction.startswith("LOAD_"),
    UnboundLocalError: lambda instruction, error: instruction.startswith("LOAD_"),
    AssertionError: lambda instruction, error: instruction == "RAISE_VARARGS",
}


def fault_of(error: BaseException, trace: Any) -> InternalError | Interrupt | None:
    """Return what an exception out of framelift's own code is: a defect, or the want of a part of torch; None where it
    is the program's.
    """
    if is_a(error, MissingPart):
        return Interrupt("missing-part", str(error))
    asked = _FAULTS.get(type(error))
    if asked is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if not is_own_code(code) or not asked(opname[code.co_code[trace.tb_lasti]], error):
        return None
    found = InternalError(f"{name_of(type(error))} in {code.co_qualname}: {error}")
    found.__cause__ = error.with_traceback(trace)
    return found


_core.connect(fault_judge=fault_of)
