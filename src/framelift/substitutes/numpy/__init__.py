"""Substitutes for numpy: functions on arrays, random generators, and answers that need no array."""
