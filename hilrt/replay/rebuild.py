"""From a log to the plan that ran, and the state before the first step."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hilrt.config.session_file import SessionFile, load_session
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.coupling.correct_feedthrough import Feedthrough
from hilrt.coupling.model_corrector import ModelCorrector
from hilrt.errors import HilrtError, RecordError
from hilrt.exchange.jacobians import find_feedthrough, find_model_corrector
from hilrt.link import Arrival, Link
from hilrt.record.facts import Facts, read_facts
from hilrt.solver import Floats, Sample
from hilrt.step.plan import Plan, build_plan
from hilrt.step.step_state import StepState, start
from hilrt.tables.network import Network, build_network


@dataclass(frozen=True)
class Recorded:
    """What a log holds of its session beside the rows.

    Attributes
    ----------
    text, name : str
        The session file and its name.
    overrides : tuple of str
        ``table.key=value`` it was run with.
    facts : Facts
    build : dict
        Versions of everything on which the last bit depends.
    where : str
        The log, for messages.
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
    """The head of a log; `RecordError` where something is missing."""
    facts = read_facts(dict(attachments), where)
    name = metadata.get("session_file", "")
    if name not in attachments:
        raise RecordError(f"{where}: holds no session file; it cannot be replayed")
    host = json.loads(attachments.get("host.json", b"{}"))
    return Recorded(
        text=attachments[name].decode(),
        name=name,
        overrides=tuple(json.loads(metadata.get("overrides", "[]"))),
        facts=facts,
        build=host.get("build", {}),
        where=where,
    )


def session_of(recorded: Recorded, changes: Sequence[str] = ()) -> SessionFile:
    """The session file in the log, with its overrides and `changes` (``table.key=value``)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / recorded.name
        path.write_text(recorded.text, encoding="utf-8")
        return load_session(path, [*recorded.overrides, *changes])


@dataclass(frozen=True)
class RebuiltNumerics:
    """Plan, state before the first step, and the tables both come from."""

    plan: Plan
    state: StepState
    tables: Session


def rebuild(recorded: Recorded, changes: Sequence[str] = ()) -> RebuiltNumerics:
    """Plan and state as they ran, or with `changes` to the session file.

    Raises
    ------
    ConfigError
        If the session file is wrong with the changes, or needs a Jacobian that is not in the log.
    RecordError
        If the log's facts do not fit its session file.
    """
    facts, tables = recorded.facts, session_of(recorded, changes).tables
    if list(tables.subsystems) != list(facts.subsystems):
        raise RecordError(f"{recorded.where}: its session file names other subsystems than the log")
    ports = {name: subsystem.ports() for name, subsystem in facts.subsystems.items()}
    network = build_network(ports, tables)
    links = [
        _Absent(name, options, facts, network, tables)
        for name, options in tables.subsystems.items()
    ]
    y0, u0 = np.array(facts.y0), np.array(facts.u0)
    feedthrough, model = asyncio.run(
        _corrections(network, tables, links, facts, y0, u0, same=not changes)
    )
    subsystems = facts.subsystems.values()
    plan = build_plan(
        network,
        tables,
        physical=np.array([s.physical for s in subsystems], dtype=bool),
        lead=np.array([s.lead for s in subsystems]),
        shadow=facts.shadow,
        feedthrough=feedthrough,
    )
    return RebuiltNumerics(plan, start(plan, 0.0, y0, u0, model), tables)


async def _corrections(
    network: Network,
    tables: Session,
    links: Sequence[Link],
    facts: Facts,
    y0: Floats,
    u0: Floats,
    *,
    same: bool,
) -> tuple[Feedthrough | None, ModelCorrector | None]:
    """Corrections of the outputs, with Jacobians as recorded or from the session file."""
    feedthrough = facts.feedthrough_correction()
    rows = network.corrected_efforts("feedthrough")
    if not same and (feedthrough is None or _corrected_rows(feedthrough) != rows.tolist()):
        feedthrough = await find_feedthrough(network, tables, links, u0)
    if not rows.any():
        feedthrough = None
    return feedthrough, await find_model_corrector(network, tables, links, u0, y0)


def _corrected_rows(feedthrough: Feedthrough) -> list[bool]:
    return [bool(row.any()) for row in feedthrough.KD]


class _Absent(Link):
    """A subsystem in a replay, of which there is only what the log recorded."""

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
        s = list(facts.subsystems).index(name)
        self._gamma = None if facts.gamma is None else np.array(facts.gamma)
        self._part = network.outputs.slices[s], network.inputs.slices[s]
        self._step = tables.master.step

    async def jacobian(
        self, source: str, t: float, h: float, order: int, u: Floats
    ) -> Floats | None:
        """Γ as recorded; None where the recorded session did not need it."""
        if self._gamma is None or h != self._step or order >= len(self._gamma):
            return None
        rows, columns = self._part
        part: Floats = self._gamma[: order + 1, rows, columns]
        return part if part.any() else None

    async def open(self) -> None:
        raise HilrtError(f"{self.name}: a replay has no subsystems")

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        raise HilrtError(f"{self.name}: a replay has no subsystems")

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """Nothing is sent."""

    def poll(self) -> Sequence[Arrival]:
        """Nothing arrives."""
        return ()
