"""From a call without an entry to a compiled one: rehearsal, breaks, limits, entries, and the frames that follow a
break.
"""
