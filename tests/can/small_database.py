"""A small database and frames of it, for the tests of what is received and sent."""

from __future__ import annotations

import cantools

from hilrt.can.database import find_signal
from hilrt.can.frame import Frame
from hilrt.can.id_table import can_id_of

DBC = """VERSION ""
BU_: Bench Gateway
BO_ 256 Fast: 8 Bench
 SG_ Speed : 0|20@1- (0.01,0) [0|0] "rad/s" Gateway
 SG_ Torque : 39|16@0- (0.02,5) [0|0] "N*m" Gateway
 SG_ Alive : 56|4@1+ (1,0) [0|15] "" Gateway
BO_ 2147484160 Slow: 8 Bench
 SG_ Enabled : 0|1@1+ (1,0) [0|1] "" Gateway
 SG_ Temp : 8|8@1+ (1,-40) [-40|215] "degC" Gateway
BO_ 512 Demand: 8 Gateway
 SG_ Speed : 0|20@1- (0.01,0) [0|0] "rad/s" Bench
 SG_ Pedal : 20|12@1+ (0.1,-5) [0|100] "%" Bench
 SG_ Enable : 32|1@1+ (1,0) [0|1] "" Bench
 SG_ Mode : 40|3@1+ (1,0) [0|7] "" Bench
 SG_ Alive : 56|4@1+ (1,0) [0|15] "" Bench
BO_ 768 Switched: 8 Bench
 SG_ Which M : 0|2@1+ (1,0) [0|3] "" Gateway
 SG_ First m0 : 8|8@1+ (1,0) [0|255] "" Gateway
 SG_ Second m1 : 8|8@1+ (1,0) [0|255] "" Gateway
BA_DEF_ SG_ "GenSigStartValue" FLOAT 0 100000;
BA_DEF_ BO_ "GenMsgCycleTime" INT 0 10000;
BA_DEF_DEF_ "GenSigStartValue" 0;
BA_DEF_DEF_ "GenMsgCycleTime" 0;
BA_ "GenSigStartValue" SG_ 512 Mode 3;
BA_ "GenMsgCycleTime" BO_ 256 10;
BA_ "GenMsgCycleTime" BO_ 2147484160 100;
"""
PLAIN = cantools.database.load_string(DBC, "dbc", strict=False)
REFS = {
    "speed": find_signal(PLAIN, "Fast.Speed", "t"),
    "torque": find_signal(PLAIN, "Fast.Torque", "t"),
    "temp": find_signal(PLAIN, "Slow.Temp", "t"),
}
STATE = find_signal(PLAIN, "Slow.Enabled", "t")
INPUTS = [find_signal(PLAIN, f"Demand.{name}", "t") for name in ("Pedal", "Speed")]
REQUEST = find_signal(PLAIN, "Demand.Enable", "t")


class Clock:
    """A monotonic clock to turn, ns."""

    def __init__(self) -> None:
        self.now = 10**12

    def __call__(self) -> int:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


def frame(name: str, t_ns: int = 0, **values: float) -> Frame:
    message = PLAIN.get_message_by_name(name)
    return Frame(can_id_of(message), message.encode(values, strict=False), t_ns)


def fast(count: int, speed: float = 1.0, torque: float = 0.0) -> Frame:
    return frame("Fast", Speed=speed, Torque=torque, Alive=count)


def slow(enabled: int, temp: float = 20.0) -> Frame:
    return frame("Slow", Enabled=enabled, Temp=temp)
