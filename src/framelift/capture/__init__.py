"""From a call without an entry to a compiled one: rehearsal, breaks, limits, entries, resumed frames."""
