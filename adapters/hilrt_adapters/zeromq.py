"""The master's link to a solver in another process (``adapter = "zeromq"``)."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from hilrt.config.structs import SubsystemOptions
from hilrt.errors import NoAnswer, ProtocolError
from hilrt.fmu.command import describe_fmu, is_fmu_command, spawned_fmu
from hilrt.hosting.group import GroupOptions
from hilrt.link import FINDINGS, CodeRun, Command, Description, LinearModel, Probes
from hilrt.peers.announced_ports import linear_model
from hilrt.peers.remote_link import RemoteLink
from hilrt.peers.wire import (
    Advance,
    Advanced,
    FromPeer,
    GoBack,
    Hello,
    Initialized,
    Linearise,
    Linearised,
    Message,
    Probe,
    Probed,
    SetParameter,
    pack,
    unpack,
    vector,
)
from hilrt.solver import Floats, Sample

if TYPE_CHECKING:
    from hilrt.config.session_file import SessionFile

#: Share of an answer's time limit that a solver may use for a trial.
TRIAL = 0.5
log = logging.getLogger("hilrt.peers.hub")


#: Code that runs to describe a group.
GROUP_CODE = CodeRun(
    "model",
    "imports its module and calls its constructor",
    "its parameters and ports, and what depends on them",
)


class ZeroMQOptions(SubsystemOptions):
    """``[subsystems.NAME]`` of a remote solver: nothing beyond the common keys."""


class ZeroMQLink(RemoteLink, Probes):
    """A stepped solver; at most one advance is outstanding."""

    Options: ClassVar[type[SubsystemOptions]] = ZeroMQOptions
    GroupOptions: ClassVar[type[SubsystemOptions] | None] = GroupOptions
    role = "solver"
    spawns = True

    _keep = False
    #: Values of changed parameters, because a returning solver starts with its defaults.
    _changed: dict[str, float]
    _linearises = _linearises_again = False
    #: Whether the answer to a trial in the slack is due, and the answer.
    _trial_due = False
    _trial: Linearised | None = None

    @classmethod
    def describe(
        cls, name: str, options: SubsystemOptions, folder: Path, run_code: bool = True
    ) -> Description:
        """Describe a solver hosted by the session; others announce their ports on connecting."""
        spawn = options.spawn
        if isinstance(options, GroupOptions) and spawn is not None:
            if not run_code:
                return Description(code=GROUP_CODE)
            return Description.from_solver(lambda: options.make(folder))
        if spawn is None or not is_fmu_command(spawn):
            return Description()
        found = describe_fmu(lambda: spawned_fmu(spawn, folder), options)
        return replace(found, problems=[f"spawn: {problem}" for problem in found.problems])

    def commands(self, session: SessionFile) -> list[Command]:
        """See `RemoteLink.commands`; a group's process also receives overrides of the file."""
        found = super().commands(session)
        if not isinstance(self.options, GroupOptions):
            return found
        changes = [word for item in session.overrides for word in ("--set", item)]
        return [
            command._replace(
                argv=command.argv + changes if "--group" in command.argv else command.argv
            )
            for command in found
        ]

    async def jacobian(
        self, source: str, t: float, h: float, order: int, u: Floats
    ) -> Floats | None:
        """See `Probes.jacobian`; the time limit is that of connecting."""
        kind: Literal["solver", "probe"] = "probe" if source == "probe" else "solver"
        gamma = await self._probe(Probe(source=kind, t=t, h=h, order=order, u=pack(u)))
        return None if gamma is None else unpack(gamma, order + 1, self.n_outputs, self.n_inputs)

    async def response(self, t: float, h: float, u: Floats, direction: Floats) -> Floats | None:
        """See `Probes.response`; the solver may take as long as to connect."""
        order, along = len(direction) - 1, pack(direction)
        probe = Probe(source="probe", t=t, h=h, order=order, u=pack(u), direction=along)
        change = await self._probe(probe)
        return None if change is None else unpack(change, self.n_outputs)

    async def linear_model(self, h: float, u: Floats) -> LinearModel | None:
        """See `Probes.linear_model`; the solver may take as long as to connect.

        A solver that does not answer in time is not lost, but its silence counts again.
        """
        return await self._linear_model(h, u, None) if self._linearises else None

    async def renewed_model(self, t: float, h: float, u: Floats) -> LinearModel | None:
        """See `Probes.renewed_model`, and `linear_model`."""
        return await self._linear_model(h, u, t) if self._linearises_again else None

    async def _linear_model(self, h: float, u: Floats, t: float | None) -> LinearModel | None:
        timeout = self.hub.connect_timeout
        question = Linearise(h=h, u=pack(u), within=TRIAL * timeout, t=t)
        try:
            return self._model_of(await self.request(question, Linearised, timeout))
        except NoAnswer as error:
            log.warning("subsystem %r is not probed: %s", self.name, error.reason)
        return None

    def _model_of(self, answer: Linearised) -> LinearModel | None:
        members = max(1, len(self.options.member_names))
        try:
            return linear_model(answer, self.n_inputs, self.n_outputs, members)
        except ProtocolError as error:
            self.hub.count(self.name, error.kind, f"{error}; it is not probed")
        return None

    def begin_trial(self, h: float, u: Floats) -> None:
        """See `TriesInSlack.begin_trial`."""
        self._trial, self._trial_due = None, True
        self.send(Linearise(h=h, u=pack(u), within=math.inf, in_slack=True))

    def trial_result(self) -> tuple[bool, LinearModel | None]:
        """See `TriesInSlack.trial_result`."""
        answer, self._trial = self._trial, None
        return answer is not None, None if answer is None else self._model_of(answer)

    def abandon_trial(self) -> None:
        """See `TriesInSlack.abandon_trial`."""
        if self._trial_due:
            self._trial_due = False
            self.peer.give_up(Linearised, self.hub.clock())

    async def _probe(self, probe: Probe) -> bytes | None:
        return (await self.request(probe, Probed, self.hub.connect_timeout)).gamma

    def step(self, tick: int, t: float, h: float, coefficients: bytes) -> Message:
        """See `RemoteLink.step`."""
        return Advance(tick=tick, t=t, h=h, coefficients=coefficients, keep=self._keep)

    def accepted(self, hello: Hello) -> None:
        """See `RemoteLink.accepted`; also notes the solver's capabilities."""
        super().accepted(hello)
        self.probes = self
        self.parameters, self._changed = self.peer.parameters, {}
        self.tells_events = "events" in hello.capabilities
        self.rewinds = self if "go_back" in hello.capabilities else None
        self._linearises = "linearise" in hello.capabilities
        self._linearises_again = "linearise_again" in hello.capabilities
        self.in_slack = self if "linearise_in_slack" in hello.capabilities else None
        self.findings = [name for name in FINDINGS if name in hello.capabilities]

    def set_parameter(self, name: str, value: float) -> str:
        """See `Link.set_parameter`; if the solver refuses the value, it sends an event."""
        if self.peer.lost or not self.send(SetParameter(name=name, value=value)):
            return "its process cannot be reached"
        self._changed[name] = value
        return ""

    def initialize_again(self, t0: float, u0: Floats) -> None:
        """See `RemoteLink.initialize_again`; parameters get their previous values."""
        super().initialize_again(t0, u0)
        for name, value in self._changed.items():
            self.send(SetParameter(name=name, value=value))

    def keep_states(self) -> None:
        """See `Rewinds.keep_states`."""
        self._keep = True

    def go_back(self, tick: int, h: float) -> None:
        """See `Rewinds.go_back`."""
        self.hub.hold(self, GoBack(tick=tick, h=h))
        self.hub.flush()

    def initialized(self, message: Initialized) -> Sample:
        """Outputs at the start."""
        sample = Sample(unpack(message.y, self.n_outputs).copy())
        self._finite(sample.y, "initialized")
        return sample

    def received(self, message: FromPeer, at_ns: int) -> None:
        """Put the outputs of an `Advanced` into the inbox."""
        if not isinstance(message, Advanced):
            if isinstance(message, Linearised) and self._trial_due:
                self._trial, self._trial_due = message, False
            else:
                super().received(message, at_ns)
            return
        n, way_us = self.n_outputs, math.nan
        sample = Sample(
            y=vector(message.y),
            dy=None if message.dy is None else unpack(message.dy, -1, n),
            y_mid=None if message.y_mid is None else vector(message.y_mid),
            y_mean=None if message.y_mean is None else vector(message.y_mean),
            compute_us=message.compute_us,
            event_t=message.event_t,
            ended=message.ended,
        )
        clock = self.peer.clock
        if message.received_ns and clock.round_trip_ns is not None:
            taken_ns = clock.to_master_ns(message.received_ns)
            way_us = max(0.0, (taken_ns - self.sent_ns) * 1e-3)
        self._finite(sample.y, "advanced of tick", message.tick)
        round_trip_us = (at_ns - self.sent_ns) * 1e-3
        self.inbox.put(sample, self.arrival_time(at_ns), round_trip_us=round_trip_us, way_us=way_us)

    def _finite(self, y: Floats, *where: object) -> None:
        """Check the outputs: after NaN, `receive` raises `PeerLost` from now on."""
        if math.isfinite(sum(y.tolist())) or np.isfinite(y).all():
            return
        channels = [name for port in self.outputs for name in port.channels()]
        bad = ", ".join(channels[i] for i in np.flatnonzero(~np.isfinite(y))[:5])
        place = " ".join(map(str, where))  # only here, because this runs for every sample
        self.gone(f"{place}: its outputs {bad} are not finite", for_good=True)
