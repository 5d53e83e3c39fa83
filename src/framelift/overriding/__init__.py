"""Code of the program that overrides torch: modes, tensor subclasses, transforms, patched attributes of tensors."""
