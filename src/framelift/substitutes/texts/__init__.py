"""Substitutes for what makes texts and writes them, one file for each subject."""
