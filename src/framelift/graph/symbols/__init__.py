"""Symbolic sizes and numbers: environment, relations, and numbers that stand for Python's and numpy's."""
