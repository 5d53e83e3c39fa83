"""What is remembered and reported of captures: entries, recompiles, counters, events, misses."""
