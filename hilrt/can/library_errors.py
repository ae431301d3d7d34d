"""What python-can and cantools raise, for the rooms that use them through this one."""

from __future__ import annotations

from typing import Final

import can
from cantools.database import DecodeError

#: A bus that cannot be opened, is off, or whose queue is full.
BUS_ERRORS: Final = (can.CanError, OSError)
#: Data that do not fit their message.
DECODE_ERRORS: Final = (DecodeError, ValueError)
