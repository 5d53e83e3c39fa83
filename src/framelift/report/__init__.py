"""Reports: what was captured, why not, and at what cost.  Made from the records that every compiled callable keeps.

The public names are re-exported by `framelift`; the records of a report are in `framelift.report.model`.
"""

from __future__ import annotations

from .. import _core
from ..vocabulary.log import printable

# They register their forms, and listen.
from . import debug_folder, html, logs, text, torch_logs  # noqa: F401
from .gather import report, report_of_all, summary
from .html import chrome_trace
from .model import SCHEMA, Report
from .repro import save_repro

__all__ = ["SCHEMA", "Report", "chrome_trace", "report", "report_of_all", "save_repro", "summary"]

_core.connect(str_of_compiled=lambda compiled: printable(summary(compiled)), report_of_compiled=report)
