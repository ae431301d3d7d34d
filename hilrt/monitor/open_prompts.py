"""Questions of test sequences that wait for an operator, as the session knows them."""

from __future__ import annotations

from typing import Final

import msgspec

from hilrt.monitor.telemetry import PromptStatus
from hilrt.sequences.prompts import Question

#: More are not shown; a sequence that asks without an end must not fill the status.
MAX_PROMPTS: Final = 20

_decoder = msgspec.json.Decoder(Question)


class OpenPrompts:
    """Takes what sequences ask; an answer, or its time, ends that."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[int, tuple[PromptStatus, int]] = {}

    def ask(self, sequence: str, text: str) -> None:
        """Take a question from its event; one that is none stays an event alone."""
        try:
            question = _decoder.decode(text)
        except msgspec.MsgspecError:
            return
        if len(self._open) >= MAX_PROMPTS:
            return
        self._count += 1
        shown = PromptStatus(
            self._count,
            sequence,
            question.text,
            question.answers,
            question.declared,
            question.until,
        )
        self._open[self._count] = (shown, question.number)

    def waiting(self, t: float) -> list[PromptStatus]:
        """Those that wait at the session time `t` [s], the oldest first."""
        for number in [n for n, (prompt, _) in self._open.items() if prompt.until <= t]:
            del self._open[number]
        return [prompt for prompt, _ in self._open.values()]

    def find(self, number: float, t: float) -> PromptStatus | None:
        """The prompt of a number, if it waits at the session time `t` [s]."""
        return next((one for one in self.waiting(t) if one.number == number), None)

    def own_number(self, prompt: PromptStatus) -> int:
        """The number that its sequence has given it."""
        return self._open[prompt.number][1]

    def close(self, prompt: PromptStatus) -> None:
        """It has been answered."""
        self._open.pop(prompt.number, None)

    def clear(self) -> None:
        """Nothing waits any more."""
        self._open.clear()
