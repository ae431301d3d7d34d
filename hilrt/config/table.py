"""What tables of a session file are made of."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec

#: An infinite timeout or limit would be a protection that never acts.
FINITE = msgspec.Meta(le=sys.float_info.max)
Positive = Annotated[float, msgspec.Meta(gt=0.0), FINITE]
NonNegative = Annotated[float, msgspec.Meta(ge=0.0), FINITE]


class Table(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of the session file."""
