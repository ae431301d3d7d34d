"""A test sequence (``adapter = "sequence"``), in a separate process.

A hanging sequence must not block the master, and if one is killed, the session must still
bring its benches to rest. Only `hilrt.simulate`, which starts no processes, calls it directly.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import msgspec

from hilrt.config.parse_toml import toml_value
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import SubsystemOptions
from hilrt.errors import ProtocolError
from hilrt.hosting.load_solver import load_sequence
from hilrt.link import CodeRun, Command, Description, SessionContext
from hilrt.peers.wire import Event, FromPeer, Hello, PromptAnswer
from hilrt.sequences.bench import SET, Setting
from hilrt.sequences.sequence import SequenceStepper
from hilrt.solver import Solver
from hilrt_adapters.inprocess import InProcessLink
from hilrt_adapters.zeromq import ZeroMQLink

#: Share of the time allowed for a step after which a sequence's process reports that it hangs.
PATIENCE: Final = 0.5


class SequenceOptions(SubsystemOptions, kw_only=True):
    """``[subsystems.NAME]`` of a test sequence."""

    #: `"tests/tip_in.py:TipIn"`: a file relative to the session file's folder, and a class in it, a
    #: subclass of `hilrt.Sequence`.
    sequence: str
    #: Keyword arguments of the class.
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    #: Answers to its questions (docs/sequences.md#questions-to-the-operator) if no operator
    #: answers; the keys are the texts of the questions.
    answers: dict[str, str] = msgspec.field(default_factory=dict)
    #: Faults (`"faults.NAME"`, docs/faults.md#when) that the sequence may begin and end, and
    #: parameters (`"parameters.SUBSYSTEM.NAME"`, docs/parameters.md) that it may change within
    #: their own bounds.
    adjust: list[str] = msgspec.field(default_factory=list)

    is_sequence: ClassVar[bool] = True

    @property
    def adjusted(self) -> list[str]:
        """See `SubsystemOptions.adjusted`."""
        return self.adjust


def _load(options: SubsystemOptions, folder: Path, step: float | None = None) -> SequenceStepper:
    """Load the stepper of a table's sequence; `ConfigError` describes the problem."""
    table = cast(SequenceOptions, options)
    setting = Setting(folder, table.answers, step, adjust=tuple(table.adjust))
    return load_sequence(table.sequence, table.params, setting)


def _demand(options: SubsystemOptions, text: str) -> tuple[str, float]:
    """Number and value from ``NUMBER = VALUE``; `ProtocolError` if it must not be changed."""
    number, _, value = text.rpartition(" = ")
    if number not in cast(SequenceOptions, options).adjust:
        raise ProtocolError(f"it may not change {number!r}")
    try:
        return number, float(value)
    except ValueError:
        raise ProtocolError(f"{text!r} sets no number") from None


def step_of(session: SessionFile, options: SubsystemOptions) -> float | None:
    """Interval between a sequence's communication points, s; None if variable."""
    master = session.tables.master
    return master.step * options.every if master.step_control.method == "fixed" else None


_CODE: Final = CodeRun(
    "sequence",
    "imports its file and calls its constructor",
    "its parameters and ports, and what depends on them",
)


class CalledSequenceLink(InProcessLink):
    """A sequence in the caller's own process, for `hilrt.simulate`."""

    Options: ClassVar[type[SubsystemOptions]] = SequenceOptions
    GroupOptions = None
    code = _CODE
    stops_in_order = True

    _step: float | None = None

    def prepare(self, context: SessionContext) -> Sequence[Command]:
        """Store the sequence's step, which filters of conditions require."""
        self._step = step_of(context.file, self.options)
        return ()

    async def open(self) -> None:
        """See `InProcessLink.open`."""
        self.host(_load(self.options, self.folder, self._step))

    @classmethod
    def make(cls, options: SubsystemOptions, folder: Path) -> Solver:
        """Create the stepper of a table's sequence; `ConfigError` if that fails."""
        return _load(options, folder)

    def host(self, solver: Solver) -> None:
        """Use an existing sequence, and forward its reports."""
        super().host(solver)
        assert isinstance(solver, SequenceStepper)
        self.events, self.demands = deque(), deque()
        solver.report_to(self._keep)

    def _keep(self, cause: str, text: str) -> bool:
        assert self.events is not None
        assert self.demands is not None
        if cause == SET:
            self.demands.append(_demand(self.options, text))
        self.events.append(Event(level="info", cause=cause, text=text))
        return True


class SequenceLink(ZeroMQLink):
    """A sequence in a process that the session starts."""

    Options = SequenceOptions
    GroupOptions = None
    spawns = False
    stops_in_order = True
    called = CalledSequenceLink

    @classmethod
    def describe(
        cls, name: str, options: SubsystemOptions, folder: Path, run_code: bool = True
    ) -> Description:
        """Describe the sequence as for `hilrt.simulate`."""
        return CalledSequenceLink.describe(name, options, folder, run_code)

    def accepted(self, hello: Hello) -> None:
        """See `ZeroMQLink.accepted`."""
        super().accepted(hello)
        self.asks, self.demands = self, deque()

    def received(self, message: FromPeer, at_ns: int) -> None:
        """See `ZeroMQLink.received`; numbers that it changes are kept for the next cut."""
        if isinstance(message, Event) and message.cause == SET and self.demands is not None:
            self.demands.append(_demand(self.options, message.text))
        super().received(message, at_ns)

    def answer(self, number: int, answer: str, who: str) -> bool:
        """See `Asks.answer`."""
        message = PromptAnswer(number=number, answer=answer, who=who)
        return self.hub.send(self.peer, self.peer.send(message))

    def commands(self, session: SessionFile) -> list[Command]:
        """``hilrt sequence``, with the address to connect to and the time allowed for a step."""
        options, master = cast(SequenceOptions, self.options), session.tables.master
        argv = ["hilrt", "sequence", options.sequence, "--connect", self.hub.address]
        argv += ["--name", self.name]
        for key, value in options.params.items():
            argv += ["--param", f"{key}={toml_value(value)}"]
        for prompt, answer in options.answers.items():
            argv += ["--answer", f"{toml_value(prompt)} = {toml_value(answer)}"]
        for number in options.adjust:
            argv += ["--adjust", number]
        step = step_of(session, options)
        if step is not None:
            argv += ["--step", repr(step)]
        pace = session.tables.session.pace
        allowed = master.step_timeout
        if pace != "asap":
            factor = pace if isinstance(pace, (int, float)) else 1.0
            allowed = options.late.max_misses * master.step * options.every / factor
        if math.isfinite(allowed):
            argv += ["--patience", repr(PATIENCE * allowed)]
        if self.operated:
            argv.append("--operated")
        return [Command(self.name, argv)]
