"""Forms of external objects inside: a leaf, a copied container, an iterator, an array, an opaque handle."""
