"""Captures as files that a user keeps: packages, and functions that are compiled ahead of time
(docs/internals/packages.md).
"""
