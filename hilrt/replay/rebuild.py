"""Rebuild a session's plan, and its state before the first step, from the log."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hilrt.config.from_toml import nearest
from hilrt.config.session_file import SessionFile, load_session
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.coupling.closed_loop import MOST_STATES, Sensitivities
from hilrt.coupling.correct_outputs import feedthrough_table
from hilrt.coupling.trust import Verification
from hilrt.errors import ConfigError, HilrtError, RecordError
from hilrt.exchange.jacobians import find_model
from hilrt.files.formats import parse_json
from hilrt.link import Link, Probes
from hilrt.solver import Floats, Sample
from hilrt.step.apply_changes import set_parameter
from hilrt.step.build_plan import Platform
from hilrt.step.changes import PARAMETERS
from hilrt.step.numerics import Numerics, build_numerics
from hilrt.step_log.facts import Facts, layout_of, read_facts
from hilrt.step_log.snapshot import other_version
from hilrt.tables.model import Model
from hilrt.tables.network import Network, build_network
from hilrt.tables.plan import OF_CHANGE, OF_CONSTANT, OF_START, OF_STATE, UNVERIFIED, VERIFIED

#: Relative tolerance of a feedthrough correction recomputed from its matrices.
SAME = 1e-9
#: A change of a bond's correction.
_CORRECTION = re.compile(r"bonds\.[^=]*\.correction\b")


@dataclass(frozen=True)
class Recorded:
    """Content of a log apart from its rows.

    Attributes
    ----------
    text, name : str
        The session file and its name.
    overrides : tuple of str
        Settings ``table.key=value`` that the session was run with.
    facts : Facts
    build : dict
        Versions of everything that can change the last bit.
    where : str
        Name of the log in messages.
    """

    text: str
    name: str
    overrides: tuple[str, ...]
    facts: Facts
    build: dict[str, str]
    where: str


def read_recorded(
    attachments: Mapping[str, bytes], metadata: Mapping[str, str], where: str
) -> Recorded:
    """Read the head of a log; `RecordError` if something is missing."""
    facts = read_facts(dict(attachments), where)
    name = metadata.get("session_file", "")
    if name not in attachments:
        raise RecordError(f"{where}: has no session file; it cannot be replayed")
    if name != Path(name).name:  # it must not be written outside the temporary folder
        raise RecordError(f"{where}: its session file is called {name!r}, which is not a file name")
    try:
        host = dict(parse_json(attachments.get("host.json", b"{}")))
        overrides = tuple(map(str, parse_json(metadata.get("overrides", "[]"))))
        text = attachments[name].decode()
    except (ValueError, TypeError) as error:  # not UTF-8, too
        raise RecordError(f"{where}: its session cannot be read: {error}") from None
    return Recorded(
        text=text,
        name=name,
        overrides=overrides,
        facts=facts,
        build=host.get("build", {}),
        where=where,
    )


def session_of(recorded: Recorded, changes: Sequence[str] = ()) -> SessionFile:
    """Session file in the log, with its overrides and `changes` (``table.key=value``)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / recorded.name
        path.write_text(recorded.text, encoding="utf-8")
        return load_session(path, [*recorded.overrides, *changes])


def rebuild(
    recorded: Recorded, changes: Sequence[str] = (), *, as_changed: bool = False
) -> Numerics:
    """Numerics as they were before the first step, or with `changes` to the session file.

    A change of ``parameters.SUBSYSTEM.NAME`` applies from the start; a model's samples stay as
    recorded. A change of a correction makes the corrections act, also in the log of a shadow run.
    With changes, probing results that may no longer hold are left out; `as_changed` leaves them out
    even without changes, for comparison.

    Raises
    ------
    ConfigError
        If the session file is wrong with the changes, or needs a Jacobian that is not in the log.
    RecordError
        If the log's facts do not match its session file, or its tables are of another version.
    """
    settings = [change for change in changes if change.startswith(f"{PARAMETERS}.")]
    others = [change for change in changes if change not in settings]
    facts, tables = recorded.facts, session_of(recorded, others).tables
    changed = as_changed or bool(changes)
    if list(tables.subsystems) != list(facts.subsystems):
        raise RecordError(f"{recorded.where}: its session file names other subsystems than the log")
    ports = {name: subsystem.ports() for name, subsystem in facts.subsystems.items()}
    network = build_network(ports, tables)
    links = [
        _Absent(name, options, facts, network, tables)
        for name, options in tables.subsystems.items()
    ]
    y0, u0 = np.array(facts.y0), np.array(facts.u0)
    subsystems = facts.subsystems.values()
    numerics = build_numerics(
        network,
        tables,
        Platform(
            physical=np.array([s.physical for s in subsystems], dtype=bool),
            lead=np.array([s.lead for s in subsystems]),
            verification=_verification(facts, network, recorded.where, changed),
            sensitivities=_sensitivities(facts, network, recorded.where, changed),
            findings=[s.findings for s in subsystems],
            parameters=[s.parameters for s in subsystems],
        ),
        y0,
        u0,
        shadow=facts.shadow and not any(map(_CORRECTION.match, others)),
        model=_as_it_ran(asyncio.run(find_model(network, tables, links, u0, y0)), facts),
        columns=_columns(recorded, tables),
    )
    if not changed and layout_of(numerics) != facts.layout:
        raise other_version(recorded.where)
    for setting in settings:
        _set_parameter(numerics, setting)
    return numerics


def _set_parameter(numerics: Numerics, setting: str) -> None:
    """Set a parameter's value from the start; ``parameters.SUBSYSTEM.NAME=value``."""
    name, _, text = setting.removeprefix(f"{PARAMETERS}.").partition("=")
    names = [own.name for own in numerics.parameters]
    if name not in names:
        known = nearest(name, names)
        raise ConfigError(f"{setting}: the session has no such parameter to change{known}")
    row = names.index(name)
    parameter = numerics.parameters[row].parameter
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not parameter.min <= value <= parameter.max:
        bounds = f"{parameter.min:g} to {parameter.max:g}"
        raise ConfigError(f"{setting}: is not a number from {bounds}")
    set_parameter(numerics.plan, numerics.state, row, value)


def _columns(recorded: Recorded, tables: Session) -> list[Floats]:
    """Columns of stimuli as the session read them; `RecordError` if the file declares others."""
    columns = recorded.facts.stimulus_columns(recorded.where)
    shapes = [segment.shape for stimulus in tables.stimuli for segment in stimulus.segments]
    if shapes.count("column") != len(columns):
        raise RecordError(
            f"{recorded.where}: has {len(columns)} columns of stimuli, unlike its session file"
        )
    return columns


def _verification(facts: Facts, network: Network, where: str, changed: bool) -> Verification:
    """Verification of the session's corrections; with changes, the part that still holds.

    `RecordError` if it does not match this network.
    """
    states, tried = facts.verification, facts.sensitivities
    elements, inputs = len(network.bonds.effort), len(network.inputs)
    fits = all(0 <= i < elements and 0 <= u < inputs for i, u, _ in tried)
    if not fits or len(states) not in (0, len(network.bonds)):  # compiled code does not check
        raise other_version(where)
    if changed or not states:
        of_element = network.bonds.of_element
        known = {int(of_element[element]) for element, _, _ in tried}
        bonds = range(len(network.bonds))
        states = [VERIFIED if b in known else UNVERIFIED for b in bonds]
    return Verification(states, tried)


def _sensitivities(
    facts: Facts, network: Network, where: str, changed: bool
) -> Sensitivities | None:
    """Sensitivities from the session's probing.

    With changes the coupled system is a different one, whose sensitivities are unknown.

    `RecordError` if it does not match this network.
    """
    found = facts.answers
    if found is None:
        return None
    ny, nu, nx = len(network.outputs), len(network.inputs), found.states
    fits = len(found.fineness) == nu and 0 <= nx <= MOST_STATES
    fits = fits and len(found.memory) in (0, len(network.subsystems))
    fits = fits and len(found.slope) in (0, nu)
    fits = fits and len(found.inside) in (0, len(network.subsystems))
    fits = fits and len(found.powers) % max(len(found.paths), 1) == 0
    fits = fits and all(0 <= i < ny for i in found.answers_known)
    fits = fits and all(0 <= i < ny and 0 <= u < nu for i, u, _ in found.direct)
    for entries, rows in ((found.paths, nx), (found.answers, ny)):
        for row, source, of_input, _ in entries:
            sources = nu if of_input else nx
            fits = fits and 0 <= row < rows and 0 <= source < sources and of_input in (0, 1)
    fits = fits and len(found.reached) == (nx if found.own else 0)
    counts = {OF_STATE: nx, OF_START: nu, OF_CHANGE: nu, OF_CONSTANT: 1}
    for s, to, source, kind, erring, _ in found.own:
        fits = fits and 0 <= s < len(network.subsystems) and 0 <= to < nx
        fits = fits and 0 <= source < counts.get(kind, 0) and erring in (0, 1)
    if not fits:  # compiled code does not check
        raise other_version(where)
    return found.without_loop() if changed else found


def _as_it_ran(model: Model | None, facts: Facts) -> Model | None:
    """`model` with its feedthrough correction taken bit for bit from the log, if unchanged."""
    recorded = facts.feedthrough_correction()
    if model is None or recorded is None:
        return model
    as_it_ran, made = feedthrough_table(recorded), model.plan.feedthrough
    same = [np.array_equal(as_it_ran[key], made[key]) for key in ("output", "source", "of_input")]
    if not all(same) or not np.allclose(as_it_ran["factor"], made["factor"], rtol=SAME):
        return model
    return model._replace(plan=model.plan._replace(feedthrough=as_it_ran))


class _Absent(Link, Probes):
    """Placeholder for a subsystem in a replay, with only the data in the log."""

    def __init__(
        self,
        name: str,
        options: SubsystemOptions,
        facts: Facts,
        network: Network,
        tables: Session,
    ) -> None:
        super().__init__(name, options, Path())
        ports = facts.subsystems[name].ports()
        self.inputs, self.outputs = ports
        self.probes = self
        s = list(facts.subsystems).index(name)
        correction = facts.feedthrough_correction()
        self._D = None if correction is None else np.linalg.solve(correction.K, correction.KD)
        self._gamma = None if facts.gamma is None else np.array(facts.gamma)
        self._part = network.outputs.slices[s], network.inputs.slices[s]
        self._step = tables.master.step

    async def jacobian(
        self, source: str, t: float, h: float, order: int, u: Floats
    ) -> Floats | None:
        """Γ or D from the log; None if the recorded session did not need it."""
        gamma = self._gamma
        if h < self._step and self._D is not None:
            gamma = self._D[None]
        elif h != self._step:
            return None
        if gamma is None or order >= len(gamma):
            return None
        part: Floats = gamma[: order + 1, *self._part]
        return part if part.any() else None

    async def open(self) -> None:
        raise HilrtError(f"{self.name}: a replay has no subsystems")

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        raise HilrtError(f"{self.name}: a replay has no subsystems")

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """Send nothing."""

    def receive(self) -> None:
        """Receive nothing."""
