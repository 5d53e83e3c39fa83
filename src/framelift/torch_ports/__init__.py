"""Private parts of torch, each declared once: what for, where, and what is lost in a torch that has none of it.

No other package names a private part of torch.
"""
