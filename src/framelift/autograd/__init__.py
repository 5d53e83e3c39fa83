"""Autograd inside a rehearsal: functions with their own backward, differentiation, hooks on tensors and modules."""
