"""Drives sequences as a session does, without one: what they set and tell at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from hilrt.sequences.bench import Setting
from hilrt.sequences.sequence import Sequence, SequenceStepper
from hilrt.solver import InputPolynomial

H = 0.1


class Driven:
    """A sequence stepped with the signals of functions of session time.

    Attributes
    ----------
    values : list of list of float
        Outputs at every communication point: ports, then whether they are driven.
    events : list of (float, str, str)
        Session time of the sample, cause and text.
    ended : str
        As its last sample says.
    """

    def __init__(
        self,
        sequence: Sequence,
        signals: Mapping[str, Callable[[float], float]] | None = None,
        answers: Mapping[str, str] | None = None,
        h: float = H,
        operated: bool = False,
        adjust: tuple[str, ...] = (),
    ) -> None:
        folder = Path(__file__).parent
        setting = Setting(folder, answers or {}, operated=operated, adjust=adjust)
        self.stepper = SequenceStepper(sequence, setting)
        self.bench = self.stepper.bench
        self.events: list[tuple[float, str, str]] = []
        self.stepper.report_to(self._tell)
        self._signals = [(signals or {})[port.name] for port in self.stepper.inputs]
        self.h, self.tick, self.ended = h, 0, ""
        first = self.stepper.initialize(0.0, self._read(0.0))
        self.values = [first.y.tolist()]

    def _tell(self, cause: str, text: str) -> bool:
        self.events.append((self.bench.now, cause, text))
        return True

    def _read(self, t: float) -> np.ndarray:
        return np.array([signal(t) for signal in self._signals])

    def step(self, steps: int = 1) -> Driven:
        """Make steps, until it ends."""
        for _ in range(steps):
            if self.ended:
                break
            t = self.tick * self.h
            sample = self.stepper.advance(t, self.h, InputPolynomial(t, self._read(t)[None]))
            self.values.append(sample.y.tolist())
            self.tick += 1
            self.ended = sample.ended
        return self

    def told(self, cause: str) -> list[str]:
        """Texts of the events of a cause."""
        return [text for _, at, text in self.events if at == cause]
