"""The demonstration's bench with checksums: its database with room made for them, and its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from hilrt.can.protection import MessageOptions

DATABASE = Path(__file__).parents[1] / "bench_configs" / "engine_bench.dbc"

#: As in the table ``[subsystems.engine.messages]``: a profile with its counter in the header, a
#: checksum beside a counter of the usual name, one beside a counter of another name.
MESSAGES: dict[str, Any] = {
    "EngineFast": {"protection": {"method": "e2e1", "data_id": 0x123}},
    "DynoDemand": {"protection": {"method": "crc8_j1850", "signal": "Check"}},
    "EngineDemand": {
        "counter": "Sequence",
        "protection": {"method": "sum", "signal": "Check", "start": 0x81},
    },
}
OPTIONS = msgspec.convert(MESSAGES, dict[str, MessageOptions])

#: What is said of EngineFast's counter goes with it.
_GONE = ("CM_ SG_ 256 Alive", "CM_ SG_ 129 Alive")
_SPEED = "SG_ ShaftSpeed : 0|24@1- (0.001,0)"
_PEDAL = ' SG_ Pedal : 0|16@1+ (0.002,0) [0|100] "%" Bench\n SG_ Alive'
_TORQUE = ' SG_ Torque : 32|16@1- (0.02,0) [-350|350] "N*m" Bench\n'
_CHECK = ' SG_ Check : 48|8@1+ (1,0) [0|255] "" Bench\n'


def protected_database() -> str:
    """DBC text: 12 bits of header before the fast measurements, checksums in the demands."""
    lines = DATABASE.read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(_GONE))
    head, rest = text.split("BO_ 256 ", 1)
    fast, rest = rest.split("BO_ 272 ", 1)
    fast = "".join(line for line in fast.splitlines(keepends=True) if "Alive" not in line)
    for old, new in (
        (_SPEED, "SG_ ShaftSpeed : 12|20@1- (0.002,0)"),
        ("ShaftTorque : 24|", "ShaftTorque : 32|"),
        ("DynoTorque : 40|", "DynoTorque : 48|"),
    ):
        assert old in fast
        fast = fast.replace(old, new)
    assert _PEDAL in head
    assert _TORQUE in head
    head = head.replace(_TORQUE, _TORQUE + _CHECK)
    head = head.replace(_PEDAL, _CHECK + _PEDAL.replace("Alive", "Sequence"))
    return f"{head}BO_ 256 {fast}BO_ 272 {rest}"
