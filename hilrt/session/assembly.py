"""Stages of a session after connecting: initialize, assemble, and choice of the pace."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec
import numpy as np

from hilrt.compilation.compiled import is_kept
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import Session
from hilrt.coupling.closed_loop import Sensitivities
from hilrt.errors import ConfigError
from hilrt.exchange.exchange import Exchange
from hilrt.exchange.implicit_scheme import ImplicitScheme
from hilrt.exchange.initial_loop import close_loop
from hilrt.exchange.jacobians import JacobianRenewal, find_model
from hilrt.exchange.repeated_steps import EventPoints, RepeatedSteps
from hilrt.exchange.sensitivities import SensitivityRenewal, find_sensitivities
from hilrt.exchange.verify_corrections import RecheckCorrections, verify_corrections
from hilrt.expressions.session_program import ChannelValues
from hilrt.hosting.reference_model import load_reference, try_reference
from hilrt.link import LinearModel, Link
from hilrt.logs.stimulus_columns import column_segments, read_columns
from hilrt.reliability.alarms import Ranges, refuse_alarms
from hilrt.session.opening import Connected
from hilrt.solver import Floats, Port, Ports, Sample
from hilrt.step import macro_step
from hilrt.step.build_plan import Platform
from hilrt.step.load_step import empty_tables
from hilrt.step.numerics import Numerics, build_numerics
from hilrt.tables.network import Network, build_network, coupled_ports
from hilrt.timing.clock import Clock
from hilrt.timing.overrun import overrun_policy
from hilrt.timing.pace import AsFastAsPossible, BetweenSteps, Pace, RealTime
from hilrt.timing.timeline import Progress, RepeatedCounts

log = logging.getLogger("hilrt.reference_model")
log_start = logging.getLogger("hilrt.start")


class InitializedSession(NamedTuple):
    """The session at its first communication point: `u0` (nu,), and a sample per subsystem."""

    connected: Connected
    network: Network
    samples: list[Sample]
    u0: Floats


async def initialize(connected: Connected) -> InitializedSession:
    """Initialize the subsystems in the order of feedthrough, with ``u0 = L y``.

    Subsystems in a feedthrough loop are initialized repeatedly until ``u0 = L y`` holds there, too.
    If the announced ports do not fit the session, every subsystem is notified and ends.
    """
    tables, links = connected.file.tables, connected.links
    ports = {link.name: Ports(tuple(link.inputs), tuple(link.outputs)) for link in links}
    try:
        network = build_network(ports, tables)
    except ConfigError as error:
        reason = f"the ports do not fit the session: {error}"
        await asyncio.gather(*(link.stop(reason) for link in links))
        raise
    u0, y0 = network.u_start.copy(), np.zeros(len(network.outputs))
    for part, port in network.outputs.ports.values():
        y0[part] = port.start
    samples: dict[int, Sample] = {}
    calculated = ChannelValues(network, tables)
    for s in network.initialization_order(calculated.needs):
        _couple(network, calculated, y0, u0, s)
        await _initialize(links[s], network, samples, y0, u0, s)
    again = [s for s in network.entangled() if not links[s].physical]
    for _ in network.members if again else ():  # after that, only loops change
        before = u0.copy()
        for s in again:
            _couple(network, calculated, y0, u0, s)
            await _initialize(links[s], network, samples, y0, u0, s)
        if np.array_equal(before, u0):
            break
    _couple(network, calculated, y0, u0)
    if network.loop_members():
        await _close_loop(links, network, calculated, samples, y0, u0)
    if calculated.subsystem is not None:
        channels = network.outputs.slices[calculated.subsystem]
        samples[calculated.subsystem] = Sample(y0[channels])
    return InitializedSession(connected, network, [samples[s] for s in range(len(links))], u0)


async def _initialize(
    link: Link, network: Network, samples: dict[int, Sample], y0: Floats, u0: Floats, s: int
) -> None:
    """Initialize a subsystem with its inputs in `u0`, and store its outputs."""
    samples[s] = await link.initialize(0.0, u0[network.inputs.slices[s]])
    y0[network.outputs.slices[s]] = samples[s].y


async def _close_loop(
    links: Sequence[Link],
    network: Network,
    calculated: ChannelValues,
    samples: dict[int, Sample],
    y0: Floats,
    u0: Floats,
) -> None:
    """Initialize the members of feedthrough loops again until outputs and inputs agree.

    Benches cannot be initialized twice and stay as they are.
    """
    members = [s for s in network.loop_members() if not links[s].physical]
    owned = np.isin(network.inputs.owner, members) & network.connected
    unknown = np.flatnonzero(owned)
    if not len(unknown):
        return

    async def evaluate(u: Floats) -> Floats:
        u0[unknown] = u
        for s in members:
            await _initialize(links[s], network, samples, y0, u0, s)
        coupled = u0.copy()
        _couple(network, calculated, y0, coupled)
        return coupled[unknown]

    names = [network.inputs.names[i] for i in unknown]
    u0[unknown] = await close_loop(evaluate, u0[unknown], names)
    _couple(network, calculated, y0, u0)


def _couple(
    network: Network, calculated: ChannelValues, y0: Floats, u0: Floats, of: int | None = None
) -> None:
    """Compute calculated channels and connected inputs from the outputs, within their bounds.

    Either for all subsystems, or for a given one.
    """
    part = slice(0, len(u0)) if of is None else network.inputs.slices[of]
    L = network.L.part(part)
    if of is None or calculated.subsystem in network.outputs.owner[L.column]:
        calculated.fill(y0)
    coupled = np.clip(L @ y0 + network.offset[part], network.u_min[part], network.u_max[part])
    np.copyto(u0[part], coupled, where=network.connected[part])


class KnownSensitivities:
    """Sensitivities shared by sessions that differ only in settings without influence on them.

    Only those of linear subsystems are reused: their answers are the same in every trial, whereas
    a subsystem with noise draws new random numbers in each. In the two-mass session of 1 s a trial
    takes 6 % of the time of a case.
    """

    #: Tables without influence on a subsystem's answers.
    BESIDE: Final = ("bonds", "reliability", "monitor", "record", "alarms", "expect", "session")
    MOST: Final = 64

    def __init__(self) -> None:
        self._found: dict[bytes, Sensitivities] = {}

    async def find(
        self, tables: Session, renews: bool, trial: Callable[[], Awaitable[Sensitivities]]
    ) -> Sensitivities:
        """Return the sensitivities of a session; run `trial` if they are not known."""
        resolved = {k: v for k, v in msgspec.structs.asdict(tables).items() if k not in self.BESIDE}
        key = msgspec.msgpack.encode((resolved, renews), enc_hook=str)
        if key in self._found:
            return self._found[key]
        found = await trial()
        if found.linear and not found.of_reference:
            if len(self._found) >= self.MOST:
                self._found.clear()
            self._found[key] = found
        return found


class Assembled(NamedTuple):
    """Numerics and exchange of the master, and the initialized session that matches them."""

    numerics: Numerics
    exchange: Exchange
    initialized: InitializedSession | None = None


def hidden_feedthrough(
    links: Sequence[Link], network: Network, found: Sensitivities
) -> dict[int, dict[str, tuple[str, ...]]]:
    """Direct feedthrough that a trial has found but ports do not declare.

    If it is ignored, a subsystem's first sample may belong to other inputs than those it starts
    with.

    Returns
    -------
    dict
        By the number of the subsystem: each such output with all inputs that it depends on.
    """
    known = set(zip(network.feedthrough.row, network.feedthrough.column, strict=True))
    direct = {(i, u) for i, u, factor in found.direct if factor != 0.0} - known
    hidden: dict[int, dict[str, tuple[str, ...]]] = {}
    for s, link in enumerate(links):
        if link.physical or link.options.reference_model is not None:
            continue  # the answers are then those of a reference model
        sides = (network.outputs, link.outputs), (network.inputs, link.inputs)
        outputs, inputs = (
            dict(zip(_span(side.slices[s]), _of_channels(ports), strict=True))
            for side, ports in sides
        )
        own: dict[str, tuple[str, ...]] = {}
        for i, u in sorted(direct):
            if i in outputs and u in inputs:
                more = own.get(outputs[i].name, outputs[i].feedthrough)
                own[outputs[i].name] = tuple(dict.fromkeys([*more, inputs[u].name]))
        if own:
            hidden[s] = own
    return hidden


def declare_feedthrough(
    links: Sequence[Link], hidden: Mapping[int, Mapping[str, tuple[str, ...]]], *, anew: bool
) -> None:
    """Warn of each output in `hidden`; add the feedthrough to its port if `anew`."""
    sample = "was computed anew, with" if anew else "may not be of"
    for s, outputs in hidden.items():
        for name, through in outputs.items():
            log_start.warning(
                "%s: output %r depends directly on %s, which its port does not declare; the "
                "first sample %s the inputs that belong to it. Declare it: "
                "Port(%r, feedthrough=%r)",
                links[s].name,
                name,
                " and ".join(through),
                sample,
                name,
                through,
            )
        if anew:
            links[s].outputs = tuple(
                replace(port, feedthrough=outputs.get(port.name, port.feedthrough))
                for port in links[s].outputs
            )


def _of_channels(ports: Sequence[Port]) -> list[Port]:
    return [port for port in ports for _ in range(port.size)]


def _span(part: slice) -> range:
    return range(part.start, part.stop)


async def assemble(
    initialized: InitializedSession,
    *,
    shadow: bool = False,
    renews: bool = False,
    in_slack: bool = False,
    note: Callable[[str], None] = lambda text: None,
    known: KnownSensitivities | None = None,
) -> Assembled:
    """Build the tables before the first tick, and the exchange; request Jacobians if needed.

    This detects direct feedthrough that ports do not declare, and then initializes the subsystems
    again in the right order.

    Parameters
    ----------
    initialized : InitializedSession
    shadow : bool
        Compute every correction and apply none.
    renews : bool
        Whether sensitivities are renewed between steps; possible if the pace waits for the solvers.
    in_slack : bool
        Whether they are renewed during the steps instead, because the pace does not wait.
    note : callable, optional
        Called with a text on how each column of a stimulus's file is interpolated.
    known : KnownSensitivities, optional
        Sensitivities of earlier sessions that differ only in settings.

    Raises
    ------
    ConfigError
        If a stimulus's file or signal does not exist, or its unit does not convert.
    """
    (file, links, _), network, samples, u0 = initialized
    tables, columns = file.tables, _read_columns(file, network, note)
    y0 = np.concatenate([sample.y for sample in samples])
    model = await find_model(network, tables, links, u0, y0)

    def trial() -> Awaitable[Sensitivities]:
        reference = References(tables, links).try_out
        return find_sensitivities(network, tables, links, u0, y0, reference, renews, in_slack)

    sensitivities = await (trial() if known is None else known.find(tables, renews, trial))
    if renews and in_slack and not sensitivities.renewed:
        log_start.warning(
            '[reliability] trials = "along": the subsystems are not probed along the way; all that '
            "can be probed have to run in processes of their own, and none in a group"
        )
    if hidden := hidden_feedthrough(links, network, sensitivities):
        # Only Python models in this process may be initialized again after they were probed.
        anew = all(link.options.adapter in ("inprocess", "calculated") for link in links)
        declare_feedthrough(links, hidden, anew=anew)
    if hidden and anew:
        again = await initialize(initialized.connected)
        settings = {"shadow": shadow, "renews": renews, "in_slack": in_slack}
        return await assemble(again, **settings, note=note, known=known)
    platform = Platform(
        physical=np.array([link.physical for link in links], dtype=bool),
        lead=np.array([link.actuation_delay for link in links]),
        verification=await verify_corrections(network, tables, links, u0, model),
        sensitivities=sensitivities,
        findings=[link.findings for link in links],
        parameters=[link.parameters for link in links],
    )
    numerics = build_numerics(
        network, tables, platform, y0, u0, shadow=shadow, model=model, columns=columns
    )
    say_when_compiling()
    numerics.load()  # takes milliseconds for the types of all tables: too long for the first tick
    exchange = Exchange(
        numerics,
        links,
        tables.master.step,
        [options.late.max_misses for options in tables.subsystems.values()],
        catch_up=[options.late.steps == "catch_up" for options in tables.subsystems.values()],
    )
    exchange.start(samples)
    return Assembled(numerics, exchange, initialized)


#: Said on standard error before a first start compiles.
COMPILES: Final = (
    "hilrt: compiling the numerics, once for this installation: it usually takes half a minute, "
    "and minutes where the processors are busy"
)


@functools.cache
def say_when_compiling() -> None:
    """Say on standard error that the step is about to be compiled, if none is stored."""
    if not is_compiled():
        print(COMPILES, file=sys.stderr, flush=True)


def is_compiled() -> bool:
    """Whether the code of the step is stored, so that loading it takes little time."""
    return is_kept(macro_step.assess, *empty_tables())


def refuse_start(numerics: Numerics) -> None:
    """Raise `SessionFault` if start values would end the session, by an alarm or their range."""
    refuse_alarms(numerics.alarms, numerics.state.outputs["y"])
    Ranges(numerics.network, numerics.plan).refuse(numerics.state.outputs["y"])


def _read_columns(file: SessionFile, network: Network, note: Callable[[str], None]) -> list[Floats]:
    """Read the columns of all stimuli, shape (n, 2) each."""
    stimuli = file.tables.stimuli
    if not any(True for _ in column_segments(stimuli)):
        return []
    unit_of = dict(zip(network.inputs.names, network.inputs.units, strict=True))
    columns = read_columns(stimuli, unit_of, file.folder, file.tables.master.step)
    for column in columns:
        note(column.note)
    return [column.points for column in columns]


class References:
    """Reference models, probed in place of subsystems that cannot be probed.

    Failures are logged and become notes of the session.
    """

    def __init__(self, tables: Session, links: Sequence[Link]) -> None:
        self._tables, self._links = tables, links

    def try_out(self, s: int, h: float, u: Floats) -> LinearModel | None:
        """Probe the reference model of subsystem `s`; None if there is none that can be probed.

        Parameters
        ----------
        s : int
        h : float
            Macro step of the subsystem, s.
        u : ndarray, shape (nu,)
            Its inputs at the start.
        """
        link = self._links[s]
        options = self._tables.subsystems.get(link.name)
        if options is None or options.reference_model is None:
            return None
        try:
            solver = load_reference(options, link.folder)
            ports = Ports(tuple(link.inputs), tuple(link.outputs))
            return try_reference(solver, ports, coupled_ports(self._tables, link.name), u, h)
        except ConfigError as error:
            log.warning(
                "the reference model %s of %s is not used, so errors are estimated without it: %s",
                options.reference_model,
                link.name,
                "; ".join(error.problems),
            )
            return None


def real_time(
    assembled: Assembled,
    tables: Session,
    clock: Clock,
    factor: float,
    on_shift: Callable[[int], None],
) -> Pace:
    """Pace by a clock at `factor` seconds per second; `on_shift` is called at grid shifts."""
    (numerics, exchange, _), progress = assembled, Progress()
    variable_step = bool(numerics.plan.session[0].variable_step)
    deadline = tables.master.dispatch_deadline * tables.master.step

    def shift(ns: int) -> None:
        progress.stretched_ns += ns
        on_shift(ns)

    overrun = overrun_policy(
        tables.master.pacing.overrun,
        one_rate=not variable_step and bool(np.all(numerics.network.every == 1)),
        on_missed=progress.skip,
        on_shift=shift,
    )
    return RealTime(
        clock,
        overrun,
        exchange,
        round(tables.master.step * 1e9),
        variable_step,
        progress,
        factor=factor,
        deadline_ns=round(deadline * 1e9 / factor),
    )


def as_fast_as_possible(
    assembled: Assembled,
    tables: Session,
    links: Sequence[Link],
    waits: Sequence[BetweenSteps] = (),
) -> Pace:
    """Pace by the solvers, with the work required between two steps; `waits` come last."""
    numerics, exchange, _ = assembled
    plan = numerics.plan
    timeout = tables.master.step_timeout
    between_steps: list[BetweenSteps] = []
    if EventPoints.possible(exchange, plan):
        between_steps.append(EventPoints(exchange, plan, timeout))
    progress, corrector, counts = Progress(), None, RepeatedCounts()
    if tables.master.scheme == "implicit":
        low_order = tables.master.interface_jacobian == "low_order"
        corrector = ImplicitScheme(numerics, exchange, counts, low_order)
    if plan.session[0].judges_before:
        control = tables.master.step_control
        between_steps.append(RepeatedSteps(numerics, exchange, control, counts, corrector))
    elif corrector is not None:
        between_steps.append(corrector)
    if plan.session[0].judges_before or corrector is not None:
        progress.repeated = counts
    if plan.model.settings[0].corrects:
        between_steps.append(JacobianRenewal(numerics, tables, links))
    recheck = RecheckCorrections(numerics, tables, links)
    if recheck.needed:
        between_steps.append(recheck)
    if plan.session[0].error_renewed:
        between_steps.append(SensitivityRenewal(numerics, tables, links))
    return AsFastAsPossible(
        exchange,
        round(tables.master.step * 1e9),
        bool(plan.session[0].variable_step),
        progress,
        step_timeout=timeout,
        between_steps=[*between_steps, *waits],
    )
