"""The graph under construction: metadata of its values, symbolic numbers, torch's state, FX nodes, and what can be said
of them.
"""
