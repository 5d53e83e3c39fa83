"""`python -m framelift`: see cli.py."""

from __future__ import annotations

import sys

from .surface import cli_export, cli_package, doctor, repro_files  # noqa: F401  (they add their commands)
from .surface.cli import main

if __name__ == "__main__":
    sys.exit(main())
