"""What processes inherit of the environment: nothing that is meant for this one alone."""

from __future__ import annotations

import os
from typing import Final

#: Beginning of the names of variables that are for the process alone that they are given to: tokens
#: and keys, addresses of sockets. None of them is inherited.
OWN_VARIABLES: Final = "HILRT_"


def inherited_environment() -> dict[str, str]:
    """The environment without variables ``HILRT_…``, for a process that is started."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(OWN_VARIABLES)
    }
