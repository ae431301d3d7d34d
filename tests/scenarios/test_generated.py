"""A session file generated from an unknown database, its choices filled in, drives the bench.

The bench is nobody's: python-can and cantools answer a database that is written here.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import can
import cantools
import numpy as np
import pytest

import hilrt
from hilrt.can.udp_multicast import open_can
from tests.scenarios.fork_server import run_hilrt
from tests.scenarios.sessions import TIMEOUT, Run, free_port, sets

CHANNEL = "239.74.163.31"
STEP = 0.01  # s
#: Without demands for that long the stand-in disables itself, s.
DEMAND_TIMEOUT = 1.0

#: Several nodes, one of them silent; an extended identifier; multiplexed signals both ways; a
#: counter and a checksum; two enables; a slow message, which is of CAN FD, and one that comes when
#: something happens.
DATABASE = """VERSION ""

NS_ :

BS_:

BU_: Rig Tester PLC

BO_ 2566844672 RigCmd: 8 Tester
 SG_ SpeedSet : 0|16@1+ (0.1,0) [0|6000] "1/min" Rig
 SG_ DriveEnable : 16|1@1+ (1,0) [0|1] "" Rig
 SG_ CoolEnable : 17|1@1+ (1,0) [0|1] "" Rig
 SG_ CmdCounter : 24|4@1+ (1,0) [0|15] "" Rig
 SG_ CmdChecksum : 56|8@1+ (1,0) [0|255] "" Rig

BO_ 300 MuxCmd: 8 Tester
 SG_ Sel M : 0|8@1+ (1,0) [0|255] "" Rig
 SG_ Pressure m3 : 8|16@1+ (0.1,0) [0|250] "bar" Rig
 SG_ Flow m5 : 8|16@1+ (0.1,0) [0|500] "l/min" Rig

BO_ 2566844673 RigFast: 8 Rig
 SG_ Torque : 7|16@0- (0.1,0) [-3000|3000] "Nm" Tester
 SG_ Speed : 16|16@1+ (0.1,0) [0|6000] "1/min" Tester
 SG_ EncoderCounter : 32|16@1+ (1,0) [0|65535] "" Tester
 SG_ EnableAck : 48|1@1+ (1,0) [0|1] "" Tester
 SG_ Alive : 56|8@1+ (1,0) [0|255] "" Tester

BO_ 301 RigMux: 8 Rig
 SG_ Page M : 0|8@1+ (1,0) [0|255] "" Tester
 SG_ Oil m1 : 8|16@1- (0.1,0) [-40|200] "degC" Tester
 SG_ Water m2 : 8|16@1- (0.1,0) [-40|200] "degC" Tester

BO_ 302 PlcStatus: 8 PLC
 SG_ Door : 0|1@1+ (1,0) [0|1] "" Tester

BO_ 303 RigEvent: 8 Rig
 SG_ FaultCode : 0|16@1+ (1,0) [0|65535] "" Tester

BO_ 304 RigSlow: 64 Rig
 SG_ Hours : 0|32@1+ (0.1,0) [0|0] "h" Tester
 SG_ DcLink : 496|16@1+ (0.1,0) [0|1000] "V" Tester

BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","StandardCAN_FD";
BA_DEF_DEF_ "VFrameFormat" "StandardCAN";
BA_ "VFrameFormat" BO_ 304 2;
BA_DEF_ BO_ "GenMsgCycleTime" INT 0 10000;
BA_DEF_DEF_ "GenMsgCycleTime" 0;
BA_ "GenMsgCycleTime" BO_ 2566844672 10;
BA_ "GenMsgCycleTime" BO_ 2566844673 10;
BA_ "GenMsgCycleTime" BO_ 301 50;
BA_ "GenMsgCycleTime" BO_ 302 100;
BA_ "GenMsgCycleTime" BO_ 304 1000;
"""
#: The same without node and cycle times, as a database of somebody else's may be.
ANONYMOUS = re.sub(
    r"^(BA_.*CycleTime.*|BO_ 302 .*\n SG_.*)$",
    "",
    re.sub(r"^(BO_ .*) \w+$", r"\1 Vector__XXX", DATABASE, flags=re.M),
    flags=re.M,
).replace("BU_: Rig Tester PLC", "BU_:")

#: A form that the stand-in sends, too, and that no database knows.
UNKNOWN_PAGE = 9

#: What the stand-in sends, by the ports; the oil and the water take turns in one message.
MEASURED = {
    "torque": 12.3,
    "speed": 1.0,
    "oil": 20.0,
    "water": 30.0,
    "hours": 1234.5,
    "dc_link": 400.0,
}

CHOSEN = {
    "method": '"sum"',
    "timeout": "3.0",
    "max_rate": "1000.0",
    "safe": "0.0",
    "start": "1.0",
}

#: A machine with other work must not decide whether the file is right.
CALM = (
    "master.connect_timeout=60.0",
    "master.arm_timeout=60.0",
    "master.pacing={spin=0.0, affinity=[]}",
    "subsystems.bench.master_timeout=0.5",
    "subsystems.bench.idle_timeout=10.0",
    "subsystems.bench.bench_timeout=0.5",
    "subsystems.bench.late.max_misses=1000",
    "record.report=false",
)


class StandIn:
    """A bench that keeps no physics, in a thread: it answers, and notes what it was sent.

    Attributes
    ----------
    demands : dict of str to list
        Decoded frames by message, in their order.
    damaged : int
        Demands with a wrong checksum.
    """

    def __init__(self, database: str, port: int) -> None:
        self._database: Any = cantools.database.load_string(database, "dbc")
        self._bus = open_can(interface="udp_multicast", channel=CHANNEL, port=port, hop_limit=0)
        self.demands: dict[str, list[dict[str, Any]]] = {"RigCmd": [], "MuxCmd": []}
        self.damaged = 0
        self._heard = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="stand-in", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        ids = {self._database.get_message_by_name(name).frame_id: name for name in self.demands}
        due, cycle = time.monotonic(), 0
        while not self._closing:
            due += STEP
            while (frame := self._bus.recv(max(0.0, due - time.monotonic()))) is not None:
                name = ids.get(frame.arbitration_id)
                if name is not None:
                    self._take(name, bytes(frame.data))
            self._publish(cycle)
            cycle += 1

    def _take(self, name: str, data: bytes) -> None:
        if name == "RigCmd" and data[7] != sum(data[:7]) & 0xFF:
            self.damaged += 1
            return
        self._heard = time.monotonic()
        self.demands[name].append(self._database.decode_message(name, data, decode_choices=False))

    def _publish(self, cycle: int) -> None:
        newest = self.demands["RigCmd"][-1] if self.demands["RigCmd"] else {}
        heard = time.monotonic() - self._heard < DEMAND_TIMEOUT
        enabled = bool(newest.get("DriveEnable", 0)) and heard
        speed = newest["SpeedSet"] if enabled else 0.0
        self._send("RigFast", Torque=12.3, Speed=speed, EncoderCounter=cycle % 65536,
                   EnableAck=enabled, Alive=cycle % 256)  # fmt: skip
        if cycle % 10 == 0:
            self._send("RigMux", Page=1, Oil=20.0)
        elif cycle % 5 == 0:
            self._send("RigMux", Page=2, Water=30.0)
        if cycle % 50 == 7:
            self._put("RigMux", bytes([UNKNOWN_PAGE, *bytes(7)]))
        if cycle % 100 == 0:
            self._send("RigEvent", FaultCode=0)
            self._send("RigSlow", Hours=1234.5, DcLink=400.0)

    def _send(self, name: str, **values: float) -> None:
        self._put(name, self._database.get_message_by_name(name).encode(values))

    def _put(self, name: str, data: bytes) -> None:
        message = self._database.get_message_by_name(name)
        self._bus.send(
            can.Message(
                arbitration_id=message.frame_id,
                is_extended_id=message.is_extended_frame,
                is_fd=message.is_fd,
                data=data,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._thread.join(TIMEOUT)
        self._bus.shutdown()


def hilrt_says(*arguments: str) -> str:
    """What a command prints; it must end well."""
    done = run_hilrt(*arguments, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def session_of(folder: Path, database: str, *options: str) -> Iterator[tuple[StandIn, Run]]:
    """Generate, fill in the choices and nothing else, check, run beside the stand-in."""
    (folder / "rig.dbc").write_text(database)
    session, port = folder / "rig.toml", free_port()
    bus = f"interface=udp_multicast,channel={CHANNEL},port={port},hop_limit=0"
    given = ["--database", str(folder / "rig.dbc"), "--bus", bus, *options]
    assert "choices to make" in hilrt_says("can", "generate", str(session), *given)
    text = session.read_text()
    filled = re.sub(r'(\w+) = "choose"', lambda found: f"{found[1]} = {CHOSEN[found[1]]}", text)
    session.write_text(filled)
    assert "no errors" in hilrt_says("check", str(session))
    with StandIn(database, port) as stand_in:
        run = Run(session, folder / "runs", "--duration", "2.0", *sets(*CALM))
        try:
            yield stand_in, run
        finally:
            run.clean_up()


@pytest.mark.parametrize(
    ("database", "options"),
    [(DATABASE, ()), (ANONYMOUS, ("--send", "RigCmd", "--send", "MuxCmd"))],
    ids=["nodes and cycle times", "neither"],
)
def test_generated_session_runs(database: str, options: tuple[str, ...], tmp_path: Path) -> None:
    with session_of(tmp_path, database, *options) as (stand_in, run):
        assert run.wait() == 0, run.stderr
    log = hilrt.load_log(run.folder)
    for name, expected in MEASURED.items():
        values = log[f"bench.{name}"]  # not a number where no sample came in time for a tick
        assert values[np.isfinite(values)][-1] == pytest.approx(expected)
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["peers"]["bench"]["dropped"] >= 1  # of the page that nobody knows
    commands = stand_in.demands["RigCmd"]
    assert stand_in.damaged == 0
    assert {command["CmdCounter"] for command in commands} == set(range(16))
    assert any(command["DriveEnable"] for command in commands)
    assert not commands[-1]["DriveEnable"]
    assert {command["Sel"] for command in stand_in.demands["MuxCmd"]} == {3, 5}
