"""Which C functions are safe to call with values of the rehearsal, as tables."""
