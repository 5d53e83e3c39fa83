"""The version of framelift: this is the one place that says it."""

__version__ = "0.1.0"
