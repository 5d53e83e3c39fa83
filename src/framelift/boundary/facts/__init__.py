"""Facts about external objects besides their contents: identity, finalizers, reads by C code, releases."""
