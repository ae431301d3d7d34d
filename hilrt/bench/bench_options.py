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
    """Silence of master or bench that triggers the safe profile, or a warning, s."""

    master: float
    bench: float


#: Timeouts of real benches, and of emulated ones on a bus without a real bench.
REAL, EMULATED = Timeouts(0.05, 0.02), Timeouts(1.0, 0.2)
#: python-can interfaces, and prefixes of SocketCAN names, that have no controller.
WITHOUT_CONTROLLER = ("udp_multicast", "virtual")
VIRTUAL_NAMES = ("vcan", "vxcan")


def is_virtual(bus: Mapping[str, Any]) -> bool:
    """Whether a bus exists only on this machine or network, without a real interface."""
    name = str(bus.get("channel", ""))
    virtual = bus.get("interface") == "socketcan" and name.startswith(VIRTUAL_NAMES)
    return virtual or bus.get("interface") in WITHOUT_CONTROLLER


class Enable(Table, kw_only=True):
    """``enable``: signals that enable the bench and confirm it."""

    #: `"Message.Signal"` that requests the enable: 1, or 0 to withdraw it.
    request: str
    #: `"Message.Signal"` in which the bench confirms it; default: no confirmation is required.
    state: str | None = None
    #: [s] Time limit for the confirmation.
    timeout: Positive = 5.0


class SafeProfile(Table):
    """``safe_profile``: how the bench is brought to rest."""

    #: Inputs in the order in which they are ramped to `safe`; the others follow.
    order: list[str] = msgspec.field(default_factory=list)
    #: [s] Time after which the next input starts, even if the previous one has not arrived yet.
    #: Make it longer than the longest ramp: (`max` − `min`) / `max_rate`, plus `max_rate` /
    #: `max_jerk` if there is a `max_jerk`.
    step_timeout: Positive = 2.0


class BenchInput(InputOptions, kw_only=True):
    """An input of a bench; `min`, `max`, `max_rate` and `safe` are required."""

    #: `"Message.Signal"` that carries the set-point.
    signal: str
    #: Output of the bench that measures the realised value.
    realised: str | None = None
    #: The signal is an enumeration: the set-point jumps to the nearest value in the signal's value
    #: table in the database, and needs no `max_rate`.
    enumerated: bool = False


class BenchOptions(SubsystemOptions, kw_only=True):
    """``[subsystems.NAME]`` with ``adapter = "can"``."""

    measured: ClassVar[bool] = True

    #: Arguments of python-can's `Bus`: `interface`, `channel`, and further arguments of the
    #: interface.
    bus: dict[str, Any]
    #: CAN database (DBC, ARXML, KCD, SYM).
    database: str
    #: Measured signals: `port = "Message.Signal"`.
    outputs: dict[str, str]
    #: Set-points, one table each.
    inputs: dict[str, BenchInput]  # type: ignore[assignment]
    #: Correct units of ports, where the database has wrong ones: `units = { coolant = "degC" }` if
    #: it says `C`, which means coulomb. Numbers are not converted.
    units: dict[str, str] = msgspec.field(default_factory=dict)
    #: [s] Time without a new tick after which the gateway runs the safe profile. It must be longer
    #: than the communication step, preferably three times as long. Default: 0.05; 1 with an
    #: emulated bench, which shares its processors with other programs.
    master_timeout: Positive | None = None
    #: [s] The same while no set-points are due: time without any message from the master. Default:
    #: ten heartbeats, 2 s.
    idle_timeout: Positive | None = None
    #: [s] Age of a frame at which the bench counts as late (a warning); at five times that age the
    #: safe profile runs. Default: 0.02, or 0.2 with an emulated bench, but for each message at
    #: least three of its cycle times in the database.
    bench_timeout: Positive | None = None
    #: Signals that enable the bench; omit the table if there are none.
    enable: Enable | None = None
    #: [s] Time from sending a set-point to its effect, at most 1 s; the master compensates it.
    actuation_delay: NonNegative = 0.0
    #: How the bench is brought to rest.
    safe_profile: SafeProfile = msgspec.field(default_factory=SafeProfile)
    #: Emulated bench that `hilrt run` starts: one of `hilrt emulate --list`, `"database"` or
    #: `"module:Class"` (docs/can.md#emulated-benches). Omit it for a real bench.
    emulator: str | None = None
    #: With `emulator = "database"`: values of outputs, by port. With `"module:Class"`: keyword
    #: arguments of the class.
    emulator_params: dict[str, Any] = msgspec.field(default_factory=dict)
    #: TOML file with scheduled faults of the emulated bench (docs/can.md).
    scenario: str | None = None
    #: Name of the counter signal. In messages that contain it, a frame that repeats the last
    #: counter value does not count.
    alive: str = "Alive"
    #: Reaction to faults of the bus.
    bus_faults: BusFaults = msgspec.field(default_factory=BusFaults)
    #: Restarts of a controller that has gone bus-off; default: none.
    bus_off_recovery: BusOffRecovery | None = None
    #: Settings for single messages, one table each.
    messages: dict[str, MessageOptions] = msgspec.field(default_factory=dict)
    #: Record the frames on the bus beside the decoded values: docs/can.md#frames-in-the-log.
    record_frames: bool = True

    @property
    def emulated(self) -> bool:
        """Whether there is an emulator, and no real bus that could reach a real bench."""
        return self.emulator is not None and is_virtual(self.bus)

    @property
    def timeouts(self) -> Timeouts:
        """Timeouts of the table, otherwise the defaults of a real or emulated bench."""
        own = EMULATED if self.emulated else REAL
        return Timeouts(self.master_timeout or own.master, self.bench_timeout or own.bench)
