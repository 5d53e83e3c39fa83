"""The environment variables of framelift: FRAMELIFT_<NAME> for each option, and these."""

from __future__ import annotations

import difflib
import os

from .options import OPTIONS

_PREFIX = "FRAMELIFT_"
#: those that belong to no option: name -> what it is for
VARIABLES = {
    "FRAMELIFT_BUILD_CORE": "0: build no native core for a torch that framelift has none for",
    "FRAMELIFT_LOGS": "topics to log",
    "FRAMELIFT_PROFILE": "profile each capture; a folder keeps the profiles",
    "FRAMELIFT_REPRO_DIR": "where repro files are written",
    "FRAMELIFT_SANITIZE": "build the core with sanitizers",
    "FRAMELIFT_TORCHES": "folders of the torches to build the core for",
}


def unknown_variables() -> dict[str, str]:
    """Return the variables that are set and that nothing reads, each with a sentence about it."""
    known = {*VARIABLES, *(_PREFIX + name.upper() for name in OPTIONS)}
    found = {}
    for name in os.environ:
        if name.startswith(_PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
            found[name] = "nothing reads it" + (f"; did you mean {near[0]}?" if near else "")
    return found
