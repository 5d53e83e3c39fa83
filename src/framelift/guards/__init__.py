"""Guards: predicates on origins as data (kinds), native programs made of them (program), and their words (explain)."""
