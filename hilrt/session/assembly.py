"""Assemble an initialized session: its numerics and exchange, and its pace."""

from __future__ import annotations

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
from hilrt.coupling.trust import Verification
from hilrt.errors import ConfigError
from hilrt.exchange.exchange import Exchange
from hilrt.exchange.implicit_scheme import ImplicitScheme
from hilrt.exchange.jacobians import JacobianRenewal, find_model
from hilrt.exchange.repeated_steps import EventPoints, RepeatedSteps
from hilrt.exchange.sensitivities import SensitivityRenewal, find_sensitivities
from hilrt.exchange.verify_corrections import RecheckCorrections, verify_corrections
from hilrt.hosting.reference_model import load_reference, try_reference
from hilrt.link import LinearModel, Link
from hilrt.logs.stimulus_columns import column_segments, read_columns
from hilrt.reliability.alarms import Ranges, refuse_alarms
from hilrt.session.initialization import InitializedSession, initialize
from hilrt.solver import Floats, Port, Ports
from hilrt.step import macro_step
from hilrt.step.build_plan import Platform
from hilrt.step.load_step import empty_tables
from hilrt.step.numerics import Numerics, build_numerics
from hilrt.tables.network import Network, coupled_ports
from hilrt.timing.clock import Clock
from hilrt.timing.overrun import overrun_policy
from hilrt.timing.pace import AsFastAsPossible, BetweenSteps, Pace, RealTime
from hilrt.timing.timeline import Progress, RepeatedCounts

log = logging.getLogger("hilrt.reference_model")
log_start = logging.getLogger("hilrt.start")


class KnownSensitivities:
    """Sensitivities shared by sessions that differ only in settings without influence on them.

    Only those of linear subsystems are reused: their responses are the same in every trial, whereas
    a subsystem with noise draws new random numbers in each. In the two-mass session of 1 s a trial
    takes 6 % of the time of a case.
    """

    #: Tables without influence on a subsystem's responses.
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

    If it is ignored, a subsystem's first sample may belong to inputs other than its start inputs.

    Returns
    -------
    dict
        By index of the subsystem: each such output with all inputs that it depends on.
    """
    known = set(zip(network.feedthrough.row, network.feedthrough.column, strict=True))
    direct = {(i, u) for i, u, factor in found.direct if factor != 0.0} - known
    hidden: dict[int, dict[str, tuple[str, ...]]] = {}
    for s, link in enumerate(links):
        if link.physical or link.options.reference_model is not None:
            continue  # the responses are those of a reference model
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
    """Warn of each output in `hidden`; if samples are computed `anew`, add it to its port."""
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


#: Message if nothing can be probed during the steps.
NOT_ALONG: Final = (
    '[reliability] trials = "along": the subsystems are not probed during the session; this '
    "requires that all that can be probed run in separate processes, and none in a group"
)


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
        Whether sensitivities are renewed between steps, which requires a pace that waits for the
        solvers.
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
        reference = References(tables, links).probe
        return find_sensitivities(network, tables, links, u0, y0, reference, renews, in_slack)

    sensitivities = await (trial() if known is None else known.find(tables, renews, trial))
    if renews and in_slack and not sensitivities.renewed:
        log_start.warning(NOT_ALONG)
    if hidden := hidden_feedthrough(links, network, sensitivities):
        # Only Python models in this process may be initialized again after probing.
        anew = all(link.options.adapter in ("inprocess", "calculated") for link in links)
        declare_feedthrough(links, hidden, anew=anew)
        if anew:
            again = await initialize(initialized.connected)
            settings = {"shadow": shadow, "renews": renews, "in_slack": in_slack}
            return await assemble(again, **settings, note=note, known=known)
    verification = await verify_corrections(network, tables, links, u0, model)
    platform = _platform(links, verification, sensitivities)
    numerics = build_numerics(
        network, tables, platform, y0, u0, shadow=shadow, model=model, columns=columns
    )
    say_when_compiling()
    numerics.load()  # takes milliseconds for all tables, too long for the first tick
    exchange = _make_exchange(numerics, links, tables)
    exchange.start(samples)
    return Assembled(numerics, exchange, initialized)


def _platform(
    links: Sequence[Link], verification: Verification, sensitivities: Sensitivities
) -> Platform:
    """Facts about the subsystems, and the results of their trials."""
    return Platform(
        physical=np.array([link.physical for link in links], dtype=bool),
        lead=np.array([link.actuation_delay for link in links]),
        verification=verification,
        sensitivities=sensitivities,
        findings=[link.findings for link in links],
        parameters=[link.parameters for link in links],
    )


def _make_exchange(numerics: Numerics, links: Sequence[Link], tables: Session) -> Exchange:
    late = [options.late for options in tables.subsystems.values()]
    catch_up = [one.steps == "catch_up" for one in late]
    misses = [one.max_misses for one in late]
    return Exchange(numerics, links, tables.master.step, misses, catch_up=catch_up)


#: Message on standard error before a first start compiles.
COMPILES: Final = (
    "hilrt: compiling the numerics, once for this installation: it usually takes half a minute, "
    "and minutes where the processors are busy"
)


@functools.cache
def say_when_compiling() -> None:
    """Print a message on standard error if the step must be compiled."""
    if not is_compiled():
        print(COMPILES, file=sys.stderr, flush=True)


def is_compiled() -> bool:
    """Whether the code of the step is in the cache, so that it loads quickly."""
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

    def probe(self, s: int, h: float, u: Floats) -> LinearModel | None:
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
