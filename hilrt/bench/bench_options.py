"""``[subsystems.NAME]`` of a bench on CAN: its keys."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from hilrt.can.bus_faults import BusFaults, BusOffRecovery
from hilrt.can.protection import MessageOptions
from hilrt.config.session_tables import NonNegative, Positive, Table
from hilrt.config.structs import InputOptions, SubsystemOptions


class Enable(Table, kw_only=True):
    """``enable``: how the bench is asked to run, and how it confirms."""

    #: Signal (``Message.Signal``) that carries the request, 1 or 0.
    request: str
    #: Signal that the bench confirms with; without it the bench is taken at its word.
    state: str | None = None
    #: How long the bench may take to confirm, s.
    timeout: Positive = 5.0


class SafeProfile(Table):
    """``safe_profile``: how the bench is brought down."""

    #: Inputs in the order in which they go to their safe values; those left out follow.
    order: list[str] = msgspec.field(default_factory=list)
    #: How long one input is waited for before the next one starts, s.
    step_timeout: Positive = 2.0


class BenchInput(InputOptions, kw_only=True):
    """An input of a bench; `min`, `max`, `max_rate` and `safe` are required."""

    #: Signal (``Message.Signal``) that carries the set-point.
    signal: str
    #: Output that measures what the bench made of it.
    realised: str | None = None


class BenchOptions(SubsystemOptions, kw_only=True):
    """``[subsystems.NAME]`` with ``adapter = "can"``."""

    measured: ClassVar[bool] = True

    #: Arguments of python-can's `Bus`: ``interface``, ``channel``, …
    bus: dict[str, Any]
    #: CAN database, relative to the session file.
    database: str
    #: Output ports: ``name = "Message.Signal"``.
    outputs: dict[str, str]
    #: Input ports, a table each.
    inputs: dict[str, BenchInput]  # type: ignore[assignment]
    #: Units of ports, in the place of what the database says: "C" is coulomb otherwise.
    units: dict[str, str] = msgspec.field(default_factory=dict)
    #: Age of the newest set-points at which the gateway runs the safe profile, s.
    master_timeout: Positive = 0.05
    #: Silence of the master that brings the safe profile on while no set-points are due, s;
    #: default: ten of its heartbeats.
    idle_timeout: Positive | None = None
    #: Age of the bench's newest frame at which it counts as silent, s.
    bench_timeout: Positive = 0.02
    enable: Enable | None = None
    #: Time from sending a set-point to its effect; the master sends what is due by then, s.
    actuation_delay: NonNegative = 0.0
    safe_profile: SafeProfile = msgspec.field(default_factory=SafeProfile)
    #: Emulated bench that `hilrt run` starts; leave it out on a real one. "database" sends what the
    #: database has, with constant values; "module:Class" computes them by a solver.
    emulator: str | None = None
    #: With "database" values of outputs, with a solver its parameters.
    emulator_params: dict[str, Any] = msgspec.field(default_factory=dict)
    #: What goes wrong on the emulated bench, a TOML file relative to the session file.
    scenario: str | None = None
    #: Name of the counter signal that is looked for in every message.
    alive: str = "Alive"
    #: What to do about faults of the bus.
    bus_faults: BusFaults = msgspec.field(default_factory=BusFaults)
    #: Restart a controller that is bus-off; default: never.
    bus_off_recovery: BusOffRecovery | None = None
    #: What is particular about single messages, a table each.
    messages: dict[str, MessageOptions] = msgspec.field(default_factory=dict)
    #: Record the frames on the bus beside the decoded values.
    record_frames: bool = True
