"""Equal layers of a graph that are one subgraph: folded, their calls and their inputs as Inductor gets them."""
