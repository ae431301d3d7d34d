"""`SequenceBench`: the argument of a sequence's `run`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple

import numpy as np

from hilrt.config.from_toml import build, nearest
from hilrt.config.structs import Expect
from hilrt.config.units import UNSTATED
from hilrt.record.messages import EXPECT, MEASURE
from hilrt.sequences.prompts import ASK, Prompt, Prompts, checked
from hilrt.sequences.steps import (
    Branch,
    Jump,
    Ramp,
    SequenceStopped,
    Together,
    Until,
    Wait,
    Waited,
    Where,
)
from hilrt.solver import Floats, Ports

#: Causes of further events that a sequence reports: the start of a step, the ends of a recorded
#: interval, a log entry, the change of a number.
STEP: Final = "sequence_step"
BEGIN: Final = "recording_begin"
END: Final = "recording_end"
LOG: Final = "sequence_log"
SET: Final = "sequence_set"
#: Maximum characters of a text; a longer one would not fit into a message.
MAX_TEXT: Final = 2000
#: Readings shown in a time-out message.
MAX_READINGS: Final = 6

#: Prefix of a fault's name.
FAULT: Final = "faults."
#: Interval of communication points assumed for filters of conditions if it varies, s.
LEAST_STEP: Final = 0.001

#: Called with cause and text of an event; False if it was not accepted.
Report = Callable[[str, str], bool]


class Setting(NamedTuple):
    """Settings from the session, in addition to a sequence's parameters.

    Attributes
    ----------
    folder : Path
        Base folder for names of source files.
    answers : mapping of str to str
        Answers to prompts, by their texts, if no operator answers.
    step : float or None
        Interval of its communication points, s; None if variable.
    operated : bool
        Whether an operator can answer prompts.
    adjust : tuple of str
        Numbers of the session that it may change.
    """

    folder: Path = Path()
    answers: Mapping[str, str] = MappingProxyType({})
    step: float | None = None
    operated: bool = False
    adjust: tuple[str, ...] = ()


class RecordedInterval:
    """``async with bench.recording(name)``: two events mark its interval in the log."""

    def __init__(self, bench: SequenceBench, name: str) -> None:
        self._bench, self._name = bench, name

    async def __aenter__(self) -> None:
        """Report the beginning."""
        self._bench.report(BEGIN, self._name)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Report the end, even after an exception."""
        self._bench.report(END, self._name)


class SequenceBench:
    """Interface of a sequence to the bench: steps to await, and methods to call.

    Attributes
    ----------
    now : float
        Session time of the newest samples, s.
    end : float
        Session time from which values that are set now act, the next communication point, s.
    step_text : str
        Line and text of the newest step.
    closing : bool
        Whether only clean-up remains, for which no session time passes.
    forgotten : list of str
        Steps that were created but not awaited.
    prompts : Prompts
        Open questions to an operator.
    """

    def __init__(self, ports: Ports, setting: Setting) -> None:
        self.where = Where(setting.folder)
        self._answers, self._adjustable = setting.answers, setting.adjust
        self.prompts = Prompts(setting.operated)
        self._step = setting.step or LEAST_STEP
        self._inputs = {port.name: i for i, port in enumerate(ports.inputs)}
        drives = ports.outputs[: len(ports.outputs) // 2]
        self._ports = {port.name: port for port in drives}
        self._values = {port.name: port.start for port in drives}
        self._driven = dict.fromkeys(self._ports, False)
        self._u: list[float] = [math.nan] * len(self._inputs)
        self._measured: set[str] = set()
        self.forward: Report = lambda cause, text: True
        self.now = self.end = 0.0
        self.step_text = "before its first step"
        self.closing = False
        self.forgotten: list[str] = []

    # --- to be awaited ------------------------------------------------------------------------

    def ramp(
        self, port: str, to: float, *, rate: float | None = None, time: float | None = None
    ) -> Ramp | Jump:
        """Await: ramp `port` from its present value to `to`, at `rate` [unit/s] or in `time` [s].

        Returns at the communication point at which the value is reached.
        """
        value = self._fitting(port, to)
        if (rate is None) == (time is None):
            raise ValueError("ramp: give either rate or time")
        if time is not None:
            rate = abs(value - self._values[port]) / _positive("time", time)
            if rate == 0.0:
                return Jump(self, port, value)
        return Ramp(self, port, value, _positive("rate", rate))

    def step(self, port: str, to: float) -> Jump:
        """Await: set `port` to `to`; returns at the next communication point, where that acts."""
        return Jump(self, port, self._fitting(port, to))

    def hold(self, port: str, duration: float) -> Wait:
        """Await: hold `port` at its present value for `duration` [s]."""
        self._known(port)
        return Wait(self, _positive("duration", duration), port)

    def wait(self, duration: float) -> Wait:
        """Await: let `duration` [s] of session time pass."""
        return Wait(self, _positive("duration", duration))

    def until(
        self, condition: str | Callable[[], object], *, timeout: float, stays: float = 0.0
    ) -> Until:
        """Await: a condition, checked with the samples of each communication point.

        Parameters
        ----------
        condition : str or callable
            An expression over the signals in `reads`, ``"engine.speed > 120"``, whose filters start
            with this step; or a function, ``lambda: bench.read("engine.speed") > 120``.
        timeout : float
            Session time after which `StepTimeout`, a `TimeoutError`, is raised, s.
        stays : float
            Time for which it must hold without interruption, s.

        Returns
        -------
        Until
            Awaiting it returns a `Waited`; its times end at the first sample from which the
            condition held.
        """
        limit = _positive("timeout", timeout)
        if not 0.0 <= stays <= limit:
            raise ValueError(f"stays = {stays!r}: must be from 0 to timeout = {limit:g}")
        if isinstance(condition, str):
            holds, names = self._expression(condition)
            return Until(self, holds, condition, limit, stays, names)
        if not callable(condition):
            raise TypeError(
                f"until: {condition!r} is not a condition; write 'a.x > 1' or lambda: …"
            )
        text = getattr(condition, "__name__", "a condition").replace("<lambda>", "a condition")
        return Until(self, lambda: _holds(condition()), text, limit, stays)

    def _expression(self, text: str) -> tuple[Callable[[], bool], tuple[str, ...]]:
        """Evaluate an expression with the present samples; return it with the signals in it.

        `ConfigError` for anything else.
        """
        from hilrt.expressions.evaluator import Evaluator  # the compiler, loaded by `prepare`

        evaluator = Evaluator([text], dict.fromkeys(self._inputs, UNSTATED), step=self._step)
        columns = [self._inputs[name] for name in evaluator.signals]

        def holds() -> bool:
            return _holds(evaluator.step(self.now, np.array([self._u[i] for i in columns]))[0])

        return holds, tuple(evaluator.signals)

    def prepare(self) -> None:
        """Load the evaluator of conditions in advance; a step in real time has no time for that."""
        if self._inputs:
            self._expression(f"known({next(iter(self._inputs))})")

    def together(self, *branches: Branch) -> Together:
        """Await: several steps or coroutines at the same time; returns a list of their results."""
        return Together(self, branches)

    def prompt(
        self, text: str, answers: Collection[str] = ("yes", "no"), *, timeout: float = 60.0
    ) -> Prompt:
        """Await: an operator's answer to a question, one of `answers`, within `timeout` [s].

        If nobody answers in time, or at once if nobody can, the answer that the session file
        declares is returned.
        """
        declared = self._answers.get(text)
        found = checked(text, answers, declared)
        return Prompt(self, text, found, declared, _positive("timeout", timeout))

    def recording(self, name: str) -> RecordedInterval:
        """``async with``: mark an interval of the log by a name."""
        return RecordedInterval(self, name)

    # --- to be called -------------------------------------------------------------------------

    def read(self, signal: str) -> float:
        """Return the newest sample of a signal, in its own unit."""
        if signal not in self._inputs:
            raise LookupError(
                f"{signal!r} is not among `reads`{nearest(signal, self._inputs)}; add it there"
            )
        return self._u[self._inputs[signal]]

    def driven_value(self, port: str) -> float:
        """Return the present value of `port`, in its unit."""
        self._known(port)
        return self._values[port]

    def release(self, port: str) -> None:
        """Stop driving `port`: its other sources, if there are any, take over."""
        self._known(port)
        self._driven[port] = False

    def set(self, number: str, value: float | None) -> None:
        """Change a number that the session file allows the sequence to adjust, from `end` on.

        Parameters
        ----------
        number : str
            ``"parameters.SUBSYSTEM.NAME"``; or ``"faults.NAME"``, see `inject` and `clear`.
        value : float or None
            Value in its unit; for a fault, None returns control to its times and conditions.
        """
        if number not in self._adjustable:
            hint = nearest(number, self._adjustable)
            raise LookupError(f"{number!r} is not in the session file's `adjust`{hint}")
        if value is None and number.startswith(FAULT):
            value = math.nan
        elif value is None or not math.isfinite(value):
            raise ValueError(f"{number} to {value!r}: must be a finite number")
        elif number.startswith(FAULT) and value not in (0.0, 1.0):
            raise ValueError(f"{number} to {value:g}: 1 begins a fault, 0 ends it")
        self.report(SET, f"{number} = {float(value)!r}")

    def inject(self, fault: str) -> None:
        """Begin a fault of the session."""
        self.set(FAULT + fault, 1.0)

    def clear(self, fault: str) -> None:
        """End a fault of the session."""
        self.set(FAULT + fault, 0.0)

    def measure(
        self,
        name: str,
        value: float | None,
        *,
        unit: str = "",
        min: float | None = None,
        max: float | None = None,
        at: Mapping[str, tuple[float, str]] | None = None,
    ) -> bool:
        """Record a result of the test: passed if `value` is between `min` and `max`, else failed.

        The result is inconclusive if the value is None, NaN or infinite, or closer to a limit than
        its estimated error. Returns True if the value is within the limits, whatever that error.
        `at` are the coordinates of the measurement, ``{"speed": (120.0, "rad/s")}``: the same
        `name` may be measured at others, and the report has a table of all these points, for two
        coordinates also a map.
        """
        quantity, coordinates = name, _coordinates(at or {})
        if coordinates:
            name += " at " + ", ".join(
                f"{axis['name']} {axis['value']:g} {axis['unit']}".rstrip() for axis in coordinates
            )
        if name in self._measured:
            raise ValueError(f"measure: there is already a result {name!r}; choose another name")
        self._measured.add(name)
        number = math.nan if value is None else float(value)
        given = _limits(min, max)
        known = number if math.isfinite(number) else None
        facts: dict[str, Any] = {"name": name, "value": known, "unit": unit, **given}
        facts["t"] = self.now
        if coordinates:
            facts |= {"quantity": quantity, "at": coordinates}
        self.report(MEASURE, json.dumps(facts, ensure_ascii=False))
        low, high = given.get("min", -math.inf), given.get("max", math.inf)
        return known is not None and low <= known <= high

    def expect(self, name: str, **keys: Any) -> None:
        """Add an expectation from here on, with the keys of ``[[expect]]``: ``always="a.x > 1"``.

        Python's reserved words get an underscore: ``for_=2.0``, ``while_="a.x > 1"``. The sequence
        does not wait for it.
        """
        table = {"from": self.now, **{key.rstrip("_"): value for key, value in keys.items()}}
        problems: list[str] = []
        build(Expect, {"name": name, **table}, "expect", problems)
        if problems:
            raise ValueError("; ".join(problems))
        self.report(EXPECT, json.dumps({"name": name, **table}, ensure_ascii=False))

    def log(self, text: str) -> None:
        """Write a line to the session's log."""
        self.report(LOG, f"{self.where.caller()}: {text}")

    # --- for steps and the stepper ------------------------------------------------------------

    def begin_step(self, where: str, text: str) -> None:
        """Report a step before it acts."""
        if self.closing:
            raise SequenceStopped
        self.step_text = f"{where}: {text}"
        self.report(STEP, self.step_text)

    def report(self, cause: str, text: str) -> None:
        """Send an event to the session; `BlockingIOError` if the session does not accept it."""
        if len(text) > MAX_TEXT and cause not in (MEASURE, EXPECT, ASK, SET):
            text = f"{text[:MAX_TEXT]} …"
        if not self.forward(cause, text):
            raise BlockingIOError("the session does not accept reports of the sequence")

    def drive(self, port: str, value: float) -> None:
        """Set an output of the present interval."""
        self._values[port], self._driven[port] = value, True

    def begin_interval(self, now: float, end: float, u: Floats) -> None:
        """Store samples, shape (n_inputs,), of the time `now`; driven values act from `end` [s]."""
        self.now, self.end, self._u = now, end, u.tolist()

    def outputs(self) -> list[float]:
        """Values of all ports, then whether they are driven."""
        return [*self._values.values(), *map(float, self._driven.values())]

    def readings(self, names: Collection[str] = ()) -> str:
        """Current readings as text; of these signals, or of the first ones."""
        shown = {name: self.read(name) for name in [*(names or self._inputs)][:MAX_READINGS]}
        return ", ".join(
            f"{name} is unknown" if math.isnan(value) else f"{name} = {value:g}"
            for name, value in shown.items()
        )

    def _known(self, port: str) -> None:
        if port not in self._ports:
            raise LookupError(
                f"{port!r} is not among `drives`{nearest(port, self._ports)}; add it there"
            )

    def _fitting(self, port: str, value: float) -> float:
        """A value within the port's bounds; `ValueError` otherwise."""
        self._known(port)
        low, high = self._ports[port].min, self._ports[port].max
        if not math.isfinite(value) or not low <= value <= high:
            raise ValueError(f"{port} to {value:g}: lies outside {low:g} to {high:g}")
        return float(value)


def _coordinates(at: Mapping[str, tuple[float, str]]) -> list[dict[str, Any]]:
    """Coordinates of a measurement, for its event."""
    found: list[dict[str, Any]] = []
    for name, pair in at.items():
        try:
            value, unit = pair
            number = float(value)
        except (TypeError, ValueError):
            number, unit = math.nan, ""
        if not math.isfinite(number) or not isinstance(unit, str):
            raise ValueError(
                f"measure: the coordinate {name} = {pair!r} is not a value with a unit; write "
                "(120.0, 'rad/s')"
            )
        found.append({"name": name, "value": number, "unit": unit})
    return found


def _limits(low: float | None, high: float | None) -> dict[str, float]:
    """Check the limits of a measurement: an invalid limit would pass every value, or none."""
    given = {}
    for key, limit in (("min", low), ("max", high)):
        if limit is None:
            continue
        if not isinstance(limit, (int, float, np.number)) or not math.isfinite(limit):
            raise ValueError(
                f"measure: {key} = {limit!r}: must be a finite number; omit it for no limit"
            )
        given[key] = float(limit)
    if len(given) == 2 and given["min"] > given["max"]:
        raise ValueError(f"measure: min = {low:g} is above max = {high:g}")
    return given


def _holds(value: object) -> bool:
    """Whether a condition's value is true; an unknown one is not."""
    return bool(value) and value == value


def _positive(name: str, value: Any) -> float:
    """Check for a finite number above 0: an infinite time would leave the bench in its state."""
    if not isinstance(value, (int, float, np.number)) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} = {value!r}: must be a finite number above 0")
    return float(value)


__all__ = ["SequenceBench", "Setting", "Waited"]
