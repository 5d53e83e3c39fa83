"""Reports: what was captured, why not, and at what cost.  Made from the records that every compiled callable keeps.

The public names are re-exported by `framelift`; the records of a report are in `framelift.report.model`.
"""

from __future__ import annotations

from .. import _core
from . import html, text  # noqa: F401  (register their forms)
from .gather import report, report_of_all, summary
from .model import SCHEMA, Report
from .trace import chrome_trace

__all__ = ["SCHEMA", "Report", "chrome_trace", "report", "report_of_all", "summary"]

_core.set_reporting(summary, report)
