"""The graph under construction: metadata, symbolic numbers, torch's state, FX nodes, and analyses of them."""
