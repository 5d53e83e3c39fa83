"""What is known of a tensor without its data: facts, fake tensors, meta kernels, and the cache of their answers."""
