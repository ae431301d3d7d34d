"""``[subsystems.NAME]`` of a bench on CAN: its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec

from hilrt.can.bus_faults import BusFaults, BusOffRecovery
from hilrt.can.protection import MessageOptions
from hilrt.config.session_tables import NonNegative, Positive, Table
from hilrt.config.structs import InputOptions, SubsystemOptions


class Timeouts(NamedTuple):
    """Silence of master and bench after which the safe profile runs, or a warning comes, s."""

    master: float
    bench: float


#: Of real benches, and of emulated ones on a bus that leads to no real one.
REAL, EMULATED = Timeouts(0.05, 0.02), Timeouts(1.0, 0.2)
#: Interfaces of python-can, and beginnings of SocketCAN's names, without a controller.
WITHOUT_CONTROLLER = ("udp_multicast", "virtual")
VIRTUAL_NAMES = ("vcan", "vxcan")


def is_virtual(bus: Mapping[str, Any]) -> bool:
    """Whether a bus is one of this machine or network alone, without a real interface."""
    name = str(bus.get("channel", ""))
    virtual = bus.get("interface") == "socketcan" and name.startswith(VIRTUAL_NAMES)
    return virtual or bus.get("interface") in WITHOUT_CONTROLLER


class Enable(Table, kw_only=True):
    """``enable``: how the bench is asked to run, and how it confirms."""

    #: `"Message.Signal"` that asks the bench to run, 1 or 0.
    request: str
    #: `"Message.Signal"` that the bench confirms with; left out: it is taken at its word.
    state: str | None = None
    #: [s] How long the bench may take to confirm.
    timeout: Positive = 5.0


class SafeProfile(Table):
    """``safe_profile``: how the bench is brought down."""

    #: Inputs in the order in which they go to `safe`; those left out follow.
    order: list[str] = msgspec.field(default_factory=list)
    #: [s] How long one input is waited for before the next one starts. Make it longer than the
    #: longest ramp, (`max` − `min`) / `max_rate`, with a `max_jerk` + `max_rate` / `max_jerk`.
    step_timeout: Positive = 2.0


class BenchInput(InputOptions, kw_only=True):
    """An input of a bench; `min`, `max`, `max_rate` and `safe` are required."""

    #: `"Message.Signal"` that carries the set-point.
    signal: str
    #: Output that measures what the bench made of it.
    realised: str | None = None


class BenchOptions(SubsystemOptions, kw_only=True):
    """``[subsystems.NAME]`` with ``adapter = "can"``."""

    measured: ClassVar[bool] = True

    #: Arguments of python-can's `Bus`: `interface`, `channel`, and what the interface takes.
    bus: dict[str, Any]
    #: CAN database (DBC, ARXML, KCD, SYM).
    database: str
    #: Measured signals: `port = "Message.Signal"`.
    outputs: dict[str, str]
    #: Set-points, a table each.
    inputs: dict[str, BenchInput]  # type: ignore[assignment]
    #: A port's unit, in the place of the database's: `units = { coolant = "degC" }` where that says
    #: `C`, which is coulomb; numbers are not converted.
    units: dict[str, str] = msgspec.field(default_factory=dict)
    #: [s] The gateway runs the safe profile when no new tick has arrived for that long. Longer than
    #: the communication step, better three of them. Left out: 0.05; 1 on an emulated bench, which
    #: shares its processors with whatever runs there.
    master_timeout: Positive | None = None
    #: [s] The same when the master has said nothing at all for that long while no set-points are
    #: due. Left out: ten of its heartbeats, 2 s.
    idle_timeout: Positive | None = None
    #: [s] Age of a frame at which the bench counts as late (a warning); at five times that the safe
    #: profile runs. Left out: 0.02; 0.2 on an emulated bench. A message that comes more rarely by
    #: the database gets three of its cycle times, if that is longer.
    bench_timeout: Positive | None = None
    #: How the bench is asked to run; left out: nothing to ask for.
    enable: Enable | None = None
    #: [s] From a set-point on the wire to its effect, at most 1 s; the master sends what is due by
    #: then.
    actuation_delay: NonNegative = 0.0
    #: How the bench is brought down.
    safe_profile: SafeProfile = msgspec.field(default_factory=SafeProfile)
    #: Emulated bench that `hilrt run` starts: one of `hilrt emulate --list`, `"database"` or
    #: `"module:Class"` (docs/can.md#emulated-benches). Leave it out on a real one.
    emulator: str | None = None
    #: With `"database"` values of outputs, by port; with `"module:Class"` the parameters of the
    #: class.
    emulator_params: dict[str, Any] = msgspec.field(default_factory=dict)
    #: What goes wrong on the emulated bench: a TOML file (docs/can.md).
    scenario: str | None = None
    #: Name of the counter signal that is looked for in every message; where there is one, a
    #: repeated frame counts as none.
    alive: str = "Alive"
    #: What to do about faults of the bus.
    bus_faults: BusFaults = msgspec.field(default_factory=BusFaults)
    #: How a controller that is bus-off is restarted; left out: not at all.
    bus_off_recovery: BusOffRecovery | None = None
    #: What is particular about single messages, a table each.
    messages: dict[str, MessageOptions] = msgspec.field(default_factory=dict)
    #: Record the frames on the bus beside the decoded values: docs/can.md#frames-in-the-log.
    record_frames: bool = True

    @property
    def timeouts(self) -> Timeouts:
        """Those in force: the table's, else those of a real or of an emulated bench."""
        emulated = self.emulator is not None and is_virtual(self.bus)
        own = EMULATED if emulated else REAL
        return Timeouts(self.master_timeout or own.master, self.bench_timeout or own.bench)
