"""Matrices: every kind of thing x every way to touch it x every way to change it, each cell compared with eager.

A matrix is a module (or package) here with a function `cells()`.  `run.py` runs them; `cell.py` has the record they
share.
"""
