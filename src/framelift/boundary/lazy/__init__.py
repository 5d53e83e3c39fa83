"""Containers and instance dictionaries that are read entry by entry, so that guards hold only what was read."""
