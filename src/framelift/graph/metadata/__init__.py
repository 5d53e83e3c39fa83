"""Metadata of tensors without data: facts, fake tensors, meta kernels, and the cache of their results."""
