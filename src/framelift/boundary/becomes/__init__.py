"""What an external object becomes inside: a leaf, a copied container, an iterator, an array, an opaque handle."""
