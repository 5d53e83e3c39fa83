"""Torch calls that need more than the general way of recording, by kind."""
