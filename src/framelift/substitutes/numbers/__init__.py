"""Substitutes for callables that are given symbolic numbers, alone or inside containers."""
