"""Compilers of graphs: their registry, torch's own and ours, disk caches, and passes over what they are given."""
