"""What a gateway tells the recorder: the CAN frames of a moment, as they were. No I/O.

The gateway spends as little as it can: frames travel as it holds them, with the readings of its
clocks, and become records of the log in the recorder's process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hilrt.files.msgpack import decode_by

#: Where gateways hand their frames to the recorder: an endpoint that the session gives them.
VARIABLE = "HILRT_FRAMES"

#: Identifier with the three highest bits as in Linux's ``struct can_frame``, data, time of
#: reception on the system's clock [ns; 0: not known], and whether it is of CAN FD.
RawFrame = tuple[int, bytes, int, bool]
EXTENDED = 1 << 31
REMOTE = 1 << 30
ERROR = 1 << 29


class Pass(NamedTuple):
    """Frames that the gateway handled at one time.

    `sent` tells them from received ones; `mono_ns` and `real_ns` are its monotonic and its system's
    clock then, ns. A frame's age is `real_ns` less its own time.
    """

    sent: bool
    mono_ns: int
    real_ns: int
    frames: Sequence[RawFrame]


class FrameBatch(msgspec.Struct, array_like=True):
    """Consecutive frames of one bus; `first` is the number of frames before them."""

    bus: str
    first: int
    passes: list[Pass]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FrameBatch)


def encode(
    bus: str, first: int, passes: Sequence[tuple[bool, int, int, Sequence[RawFrame]]]
) -> bytes:
    """Message of a `FrameBatch`, of plain tuples: they cost the gateway a third of named ones."""
    return _encoder.encode((bus, first, passes))


def decode(data: bytes) -> FrameBatch:
    """Batch in a message; `msgspec.MsgspecError` if it is none."""
    batch: FrameBatch = decode_by(_decoder, data)
    return batch
