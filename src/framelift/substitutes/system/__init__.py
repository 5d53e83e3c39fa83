"""Substitutes for what belongs to the process and the system around it: its environment, its folder, files."""
