"""`python -m framelift`: see cli.py."""

from __future__ import annotations

import sys

from .surface import repro_files  # noqa: F401  (adds its command)
from .surface.cli import main

if __name__ == "__main__":
    sys.exit(main())
