"""Substitutes for torch's Python functions that are no tensor operations: settings, generators, CUDA, optimizers."""
