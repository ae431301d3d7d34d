"""A viewer that shows what a test says, without a session."""

from hilrt.monitor import stream
from hilrt.monitor.stream import (
    BondEdge,
    ConnectionEdge,
    Happening,
    Head,
    SessionGraph,
    SubsystemNode,
)
from hilrt.monitor.telemetry import BondStatus, PeerStatus, Percentiles, RaisedFlag, Status
from hilrt.monitor.viewer import Viewer
from hilrt.record.messages import Signal

TOPOLOGY = SessionGraph(
    [
        SubsystemNode("vehicle", "zeromq", "hold", 50),
        SubsystemNode("engine", "can", "extrapolate", 50),
    ],
    [
        ConnectionEdge("engine.torque", "vehicle.engine_torque"),
        ConnectionEdge("vehicle.engine_speed", "engine.speed_demand"),
    ],
    [BondEdge("shaft", ["engine.torque"], "vehicle.engine_speed", "energy")],
)
HEAD = Head(
    session="engine <b>",
    duration=30.0,
    rate=10.0,
    signals=[
        Signal("engine.torque", "N*m"),
        Signal("vehicle.engine_speed", "rad/s"),
        Signal("master:lateness", "us"),
    ],
    topology=TOPOLOGY,
    control=["safe", "stop", "mark", "shadow", "acknowledge", "adjust"],
    adjustable={"bonds.shaft.cap": (0.0, 0.2), "reliability.tracking": (0.1, 1.0)},
)
RUNNING = Status(
    session="engine <b>",
    state="RUNNING",
    t=12.0,
    duration=30.0,
    tick=12_000,
    missed=3,
    rate_hz=999.4,
    lateness_us=Percentiles(60.0, 180.0, 400.0),
    values={"engine.torque": 123.456},
    units={"engine.torque": "N*m"},
    bonds={"shaft": BondStatus(25_000.0, -12.5, 120.0, 3.0)},
    peers={"vehicle": PeerStatus(12, 0, 1.2), "engine": PeerStatus(0, 1, 0.5, 4)},
    verdict="good",
)
LATE = RaisedFlag("sample_late", "vehicle")
#: The message by which the stream says so.
LATE_RAISED = [
    stream.EVENT,
    stream.encode(
        Happening(
            number=1,
            t=RUNNING.t + 1.0,
            level="warning",
            cause=LATE.cause,
            source=LATE.where,
            text="sample_late raised: vehicle",
        )
    ),
]


class StillViewer(Viewer):
    """Hears nothing by itself; time stands still until `now_s` is changed."""

    def __init__(self, status=None, flags=(), head=HEAD):
        self.now_s = 100.0
        super().__init__("tcp://127.0.0.1:9", clock=lambda: self.now_s)
        self.head, self.status = head, status
        self._flags = dict.fromkeys(flags, 0.0)
        self.sent = []

    def event(
        self, number, level="warning", cause="sample_late", text="", acknowledged="", value=None
    ):
        self._handle_event(
            Happening(
                number=number,
                t=number * 1.0,
                level=level,
                cause=cause,
                source="vehicle",
                text=text or f"bang_{number}",  # of a kind of its own
                acknowledged=acknowledged,
                value=value,
            )
        )

    def poll(self, wait_ms=0):
        return 0

    def client(self):
        return self

    def send(self, command):
        self.sent.append(command)
        return len(self.sent)
