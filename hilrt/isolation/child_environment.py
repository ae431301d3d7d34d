"""What processes inherit of the environment: nothing that is meant for this one alone."""

from __future__ import annotations

import os
from typing import Final

#: Beginning of the names of variables that are for the process alone that they are given to: tokens
#: and keys, addresses of sockets. None of them is inherited.
OWN_VARIABLES: Final = "HILRT_"
#: Variables that this process has set for itself.
_set_here: set[str] = set()


def set_for_this_process(name: str, value: str) -> None:
    """Set a variable that no other process inherits."""
    os.environ[name] = value
    _set_here.add(name)


def inherited_environment() -> dict[str, str]:
    """The environment for a process that is started, without variables for this one alone."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(OWN_VARIABLES) and name not in _set_here
    }
