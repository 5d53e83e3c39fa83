"""Substitutes for torch's Python functions that are no operations on tensors: settings, generators, CUDA,
optimizers."""
