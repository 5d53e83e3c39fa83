"""`python -m framelift`: see cli.py."""

from __future__ import annotations

import sys

from . import repros  # noqa: F401  (adds its command)
from .cli import main

if __name__ == "__main__":
    sys.exit(main())
