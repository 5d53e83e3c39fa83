"""Symbolic sizes and numbers: their environment, relations between them, numbers that stand for Python's and
numpy's."""
