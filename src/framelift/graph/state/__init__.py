"""Torch's own state that a graph depends on: modes and settings."""
