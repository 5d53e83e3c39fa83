"""Layers around an entry: failing graphs, exits by exception, symbolic numbers, value ranges."""
