"""A CAN frame as the gateway handles it: small, and the same from every interface.

Identifier and kind share one number, laid out as in Linux's ``struct can_frame``: a frame is looked
up by a single dictionary access, and remote and error frames never look like data.
"""

from __future__ import annotations

from typing import NamedTuple

EXTENDED = 1 << 31
REMOTE = 1 << 30
ERROR = 1 << 29
STANDARD_MASK = 0x7FF
EXTENDED_MASK = 0x1FFFFFFF

#: Bytes of a frame without CAN FD, and of one with it.
CLASSIC_BYTES = 8
FD_BYTES = 64
#: Bytes of a CAN FD frame by its data length code; others are filled up.
FD_LENGTHS: tuple[int, ...] = (*range(9), 12, 16, 20, 24, 32, 48, 64)


class Frame(NamedTuple):
    """One frame.

    Parameters
    ----------
    can_id : int
        Identifier, with `EXTENDED`, `REMOTE` and `ERROR` as they apply.
    data : bytes
        Up to 8 bytes, up to 64 with CAN FD.
    t_ns : int
        When it was received on the system's clock, ns; 0 where that is not known.
    fd : bool
        CAN FD frame format.
    """

    can_id: int
    data: bytes
    t_ns: int = 0
    fd: bool = False

    @property
    def identifier(self) -> int:
        """Arbitration identifier alone."""
        return self.can_id & (EXTENDED_MASK if self.can_id & EXTENDED else STANDARD_MASK)

    @property
    def text(self) -> str:
        """Identifier as engineers write it; extended ones with all digits."""
        return f"0x{self.identifier:08X}" if self.can_id & EXTENDED else f"0x{self.identifier:X}"
