"""What users call: compile, decorators, stances, dynamic shapes, explain, the drop-in for torch.compile, the command
line.
"""
