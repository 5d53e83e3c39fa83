"""The version of framelift: this is the one place that says it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
