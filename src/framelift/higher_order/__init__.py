"""Operators that take functions: bodies, control flow, regions, attention, Triton kernels."""
