"""What the flags of ASAM bus logging may say of a frame."""

from types import SimpleNamespace

import numpy as np
import pytest

from hilrt.logs.source_mf4 import _frames
from hilrt.record.logged_frame import FrameFlag

FD, BRS = FrameFlag.FD, FrameFlag.BIT_RATE_SWITCH


@pytest.mark.parametrize(
    ("kind", "edl", "expected"),
    [
        ("CAN_DataFrame", 1, FD | BRS),
        ("CAN_DataFrame", 0, 0),  # a faster part is one of CAN FD alone
        ("CAN_RemoteFrame", 1, FrameFlag.REMOTE),  # which has no remote frames
    ],
)
def test_flags_that_no_frame_can_have_together(kind: str, edl: int, expected: int) -> None:
    fields = {"ID": 5, "EDL": edl, "BRS": 1, "Dir": 0, "DataLength": 0, "BusChannel": 1, "DLC": 0}
    samples = np.zeros(1, [(f"{kind}.{name}", np.uint32) for name in fields])
    for name, value in fields.items():
        samples[f"{kind}.{name}"] = value
    (frame,) = _frames(SimpleNamespace(samples=samples, timestamps=np.zeros(1)), kind, 0)
    assert frame.flags == expected
