"""The public interface: compile, decorators, stances, dynamic shapes, explain, torch.compile's drop-in, commands."""
