"""The tape of recorded calls and the FX graph made of it."""
