"""Records and reports of captures: entries, recompiles, counters, events, misses."""
