"""Facts in a log in addition to the session file: data for a replay, the models, the host."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import platform
import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hilrt.config.session_file import SessionFile
from hilrt.coupling.closed_loop import Sensitivities
from hilrt.coupling.correct_outputs import Feedthrough, feedthrough_matrices
from hilrt.errors import RecordError
from hilrt.files.formats import NOT_MSGPACK
from hilrt.link import Link
from hilrt.record.messages import Attachment
from hilrt.solver import Floats, Parameter, Port, Ports, Sample
from hilrt.step.numerics import Numerics
from hilrt.step_log.snapshot import layout_version, other_version
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table, blocks
from hilrt.timing.host import host_report
from hilrt.version import VERSION

#: Names of the attachments.
REPLAY, MODELS, HOST = "replay.msgpack", "models.json", "host.json"
FORMAT = 2
#: Packages that affect the last bit of a decision.
_NUMERICAL = ("numpy", "numba", "llvmlite")
#: Packages whose sources determine a macro step.
_DECIDING = ("compilation", "coupling", "expressions", "reliability", "step", "tables")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class SubsystemFacts(msgspec.Struct):
    """Facts about a subsystem for the numerics; `lead` is its actuation delay, s."""

    inputs: list[Port]
    outputs: list[Port]
    physical: bool
    lead: float
    findings: list[str] = []
    parameters: list[Parameter] = []

    def ports(self) -> Ports:
        """The ports, as for a link."""
        return Ports(tuple(self.inputs), tuple(self.outputs))


class Facts(msgspec.Struct):
    """Facts that determine plan and initial state, in addition to the session file.

    `layout` is the version of the tables' layout, in hexadecimal digits. `y0` (ny,) and `u0` (nu,)
    are the initialized outputs and inputs; `feedthrough` the two matrices of that correction;
    `gamma` (order + 1, ny, nu) the Jacobians of the model-based one. `verification` and
    `sensitivities` are those of `hilrt.coupling.trust`; `answers` are the sensitivities probed for
    the error estimate. `columns` holds times and values of the columns that stimuli consist of.
    """

    format: int
    layout: str
    subsystems: dict[str, SubsystemFacts]
    shadow: bool
    y0: list[float]
    u0: list[float]
    feedthrough: list[list[list[float]]] | None
    gamma: list[list[list[float]]] | None
    verification: list[int] = []
    sensitivities: list[tuple[int, int, float]] = []
    answers: Sensitivities | None = None
    columns: list[bytes] = []

    def stimulus_columns(self, where: str) -> list[Floats]:
        """Columns of files that stimuli consist of; `RecordError` if one is damaged."""
        if any(len(column) % 16 for column in self.columns):
            raise RecordError(f"{where}: {REPLAY} is damaged: a column of a stimulus")
        return [np.frombuffer(column).reshape(-1, 2) for column in self.columns]

    def feedthrough_correction(self) -> Feedthrough | None:
        """The feedthrough correction, as used in the session."""
        if self.feedthrough is None:
            return None
        K, KD = (np.array(matrix) for matrix in self.feedthrough)
        return Feedthrough(K, KD)


class _Head(msgspec.Struct):
    """Head of the facts, common to all versions."""

    format: int


def collect_facts(
    links: Sequence[Link], numerics: Numerics, samples: Sequence[Sample], u0: Floats
) -> Facts:
    """Collect the data for a replay of a session that is about to run."""
    plan, gamma = numerics.plan, numerics.state.model.gamma
    correction = feedthrough_matrices(plan.model, len(plan.outputs), len(plan.inputs))
    return Facts(
        format=FORMAT,
        layout=layout_of(numerics),
        subsystems={
            link.name: SubsystemFacts(
                list(link.inputs),
                list(link.outputs),
                link.physical,
                link.actuation_delay,
                list(link.findings),
                list(link.parameters),
            )
            for link in links
        },
        shadow=bool(plan.session["shadow"][0]),
        y0=np.concatenate([sample.y for sample in samples]).tolist(),
        u0=u0.tolist(),
        feedthrough=None if correction is None else [correction.K.tolist(), correction.KD.tolist()],
        gamma=gamma.tolist() if gamma.size else None,
        verification=plan.bonds["verification"].tolist(),
        sensitivities=[row[:3] for row in plan.sensitivities.tolist()],
        columns=[np.ascontiguousarray(column).tobytes() for column in numerics.columns],
        answers=_answers(plan, numerics.state.answers["factor"]),
    )


def _answers(plan: Plan, factors: Floats) -> Sensitivities:
    """Probed sensitivities of the subsystems, from plan and state before the first tick."""
    states, own_paths = int(plan.session["error_states"][0]), len(plan.own_paths)
    sizes = [len(plan.error_paths), len(plan.error_answers), len(plan.direct), own_paths]
    sizes.append(states if own_paths else 0)
    parts = np.split(factors, np.cumsum(sizes))
    paths, answers, direct, own, reached, powers = (part.tolist() for part in parts)
    return Sensitivities(
        states=states,
        paths=_with(plan.error_paths, paths),
        answers=_with(plan.error_answers, answers),
        direct=_with(plan.direct, direct),
        answers_known=np.flatnonzero(plan.outputs["answers_known"]).tolist(),
        fineness=plan.inputs["fineness"].tolist(),
        linear=bool(plan.session["error_linear"][0]),
        of_reference=bool(plan.session["error_of_reference"][0]),
        memory=plan.subsystems["memory"].tolist(),
        renewed=bool(plan.session["error_renewed"][0]),
        slope=plan.inputs["slope"].tolist(),
        unit=float(plan.session["error_unit"][0]),
        powers=powers,
        inside=plan.subsystems["inside"].tolist(),
        own=_with(plan.own_paths, own),
        reached=reached,
    )


def _with(rows: Table[Any], factors: list[float]) -> list[Any]:
    return [(*row, factor) for row, factor in zip(rows.tolist(), factors, strict=True)]


def numerics_metadata(numerics: Numerics) -> dict[str, str]:
    """Metadata of the numerics for reports: bonds, whether orders are controlled, and so on."""
    bonds = [
        {
            "name": bond.name,
            "effort": " + ".join(bond.efforts),
            "flow": bond.flow,
            "applied": bool(settings.active),
        }
        for bond, settings in zip(numerics.network.bonds.tables, numerics.plan.bonds, strict=True)
    ]
    identifies = bool(numerics.plan.model.settings[0].identifies)
    return {
        "bonds": json.dumps(bonds),
        "controls_order": str(bool(numerics.plan.session[0].controls_order)),
        "identifies": str(identifies),
    }


def layout_of(numerics: Numerics) -> str:
    """Version of the layout of all recorded tables."""
    given, state = blocks(numerics.given, "given."), blocks(numerics.state, "state.")
    return layout_version([*given, ("slack", numerics.slack), *state]).hex()


def read_facts(attachments: dict[str, bytes], where: str) -> Facts:
    """Facts from a log; `RecordError` if it has none that this version can read."""
    if REPLAY not in attachments:
        raise RecordError(
            f"{where}: contains no {REPLAY}: it was recorded by an older version, which did not "
            "record the data for a replay"
        )
    try:
        if msgspec.msgpack.decode(attachments[REPLAY], type=_Head).format != FORMAT:
            raise other_version(where)
        return msgspec.msgpack.decode(attachments[REPLAY], type=Facts)
    except NOT_MSGPACK as error:
        raise RecordError(f"{where}: {REPLAY} is damaged: {error}") from None


def attachments_of(file: SessionFile, links: Sequence[Link], facts: Facts) -> list[Attachment]:
    """Attachments of the log of a session that is about to run."""
    host = {"build": build_report(), "host": host_report()}
    models = {link.name: model_files(link) for link in links}
    return [
        Attachment(file.path.name, "application/toml", file.text.encode()),
        *(
            Attachment(path.name, "text/plain", path.read_bytes())
            for link in links
            for path in link.files
        ),
        Attachment(REPLAY, "application/msgpack", msgspec.msgpack.encode(facts)),
        Attachment(MODELS, "application/json", json.dumps(models, indent=1).encode()),
        Attachment(HOST, "application/json", json.dumps(host, indent=1).encode()),
    ]


def build_report() -> dict[str, str]:
    """Identity of the numerics: replays are equal to the last bit if code and compiler are."""
    report = {
        "hilrt": VERSION,
        "source": source_hash(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": _processor(),
    }
    for package in _NUMERICAL:
        try:
            report[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return report


@functools.cache
def source_hash() -> str:
    """SHA-256 of the package's sources that affect decisions, at the time of the first call."""
    root = Path(__file__).parents[1]
    files = [path for room in _DECIDING for path in root.glob(f"{room}/*.py")]
    digest = hashlib.sha256()
    for path in sorted([*root.glob("*.py"), *files]):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _processor() -> str:
    """Name of the processor: vectorised arithmetic differs from one generation to another."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return found[1] if found else platform.processor()


def model_files(link: Link) -> dict[str, str]:
    """Files named in a subsystem's table, with their SHA-256."""
    files = {str(path): path for path in link.files}
    for text in _strings(msgspec.to_builtins(link.options)):
        for word in text.split("=")[-1:]:  # also in --param key=FILE
            path = _module_file(word) if _TARGET.fullmatch(word) else link.folder / word
            if path is not None and word and _is_file(path):
                files[word] = path
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def _module_file(target: str) -> Path | None:
    """Source of ``module:Class``, without importing it."""
    try:
        spec = importlib.util.find_spec(target.partition(":")[0])
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # not a valid file name
        return False
