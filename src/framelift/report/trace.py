"""The timeline of a report in the format of Chrome's tracing page and Perfetto."""

from __future__ import annotations

import json
from typing import Any

from .model import Report


def chrome_trace(report: Report) -> str:
    """The phases of all captures as complete events; times are microseconds since the first one."""
    events: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "framelift"}}]
    for function in report.functions:
        for capture in function.captures:
            for phase in capture.phases:
                events.append(
                    {
                        "name": f"{phase.name}: {function.name}",
                        "cat": phase.name,
                        "ph": "X",
                        "ts": phase.start * 1e6,
                        "dur": phase.seconds * 1e6,
                        "pid": 1,
                        "tid": 1,
                        "args": {"capture": capture.id, "status": capture.status},
                    }
                )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
