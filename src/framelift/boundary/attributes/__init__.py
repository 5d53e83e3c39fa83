"""Attributes of external instances and classes, in CPython's own order, guarded where they are found."""
