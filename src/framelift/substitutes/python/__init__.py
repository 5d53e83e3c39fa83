"""Substitutes for Python's built-in functions and its standard library, one file for each subject."""
