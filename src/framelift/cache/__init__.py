"""Captures kept on disk: what a rehearsal found out, as data, for the next process (docs/internals/cache.md)."""
