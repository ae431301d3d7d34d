"""Questions to the operator, ``await bench.prompt(…)``, and their answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Final, Protocol

import msgspec

from hilrt.sequences.steps import (
    EPS,
    PAUSE,
    BenchOfSteps,
    SequenceStep,
    Steps,
    StepTimeout,
)

#: Causes of events: an open question, and its final answer.
ASK: Final = "prompt_asked"
ANSWER: Final = "prompt"
#: Maximum number of answers: each is one key of the terminal, and one button of the page.
MAX_ANSWERS: Final = 9
#: Maximum length of answer and question, in characters: they must fit on a button and a line.
MAX_ANSWER, MAX_QUESTION = 60, 300

AnswerText = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ANSWER)]


class Question(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An open question, as in its event.

    Parameters
    ----------
    number : int
        Number among this sequence's questions.
    text : str
    answers : list of str
        Possible answers.
    declared : str or None
        Answer used after `until`; without it the sequence fails.
    until : float
        Session time until which the question stays open, s.
    """

    number: int
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_QUESTION)]
    answers: Annotated[list[AnswerText], msgspec.Meta(min_length=1, max_length=MAX_ANSWERS)]
    declared: str | None = None
    until: float


class BenchOfPrompts(BenchOfSteps, Protocol):
    """Interface that prompts require; see `SequenceBench`."""

    prompts: Prompts

    def report(self, cause: str, text: str) -> None:
        """Send an event to the session."""


class Prompts:
    """The open questions of a sequence, and the operators' answers.

    Parameters
    ----------
    operated : bool
        Whether an operator can answer.
    """

    def __init__(self, operated: bool) -> None:
        self.operated = operated
        self._count = 0
        self._waiting: dict[int, Question] = {}
        self._given: dict[int, tuple[str, str]] = {}

    def open(self, text: str, answers: list[str], declared: str | None, until: float) -> Question:
        """Open a question."""
        self._count += 1
        question = Question(
            number=self._count, text=text, answers=answers, declared=declared, until=until
        )
        self._waiting[question.number] = question
        return question

    def close(self, question: Question) -> None:
        """Close the prompt."""
        self._waiting.pop(question.number, None)
        self._given.pop(question.number, None)

    def accept(self, number: int, answer: str, who: str) -> bool:
        """Accept an operator's answer; False if no question is open for it."""
        question = self._waiting.get(number)
        if question is None or number in self._given or answer not in question.answers:
            return False
        self._given[number] = (answer, who)
        return True

    def given(self, question: Question) -> tuple[str, str] | None:
        """The answer, and who gave it; None if there is none yet."""
        return self._given.get(question.number)


class Prompt(SequenceStep[str]):
    """A question; completed at the communication point after an operator's answer.

    If nobody can answer, the declared answer counts at once, and no time passes.

    Parameters
    ----------
    bench : BenchOfPrompts
    text : str
        The question.
    answers : collection of str
    declared : str or None
        Answer used if nobody answers.
    timeout : float
        Time limit for an operator, s.
    """

    def __init__(
        self,
        bench: BenchOfPrompts,
        text: str,
        answers: Collection[str],
        declared: str | None,
        timeout: float,
    ) -> None:
        if bench.prompts.operated:
            super().__init__(bench, f"asks {text!r} ({', '.join(answers)})", timeout)
        else:
            super().__init__(bench, f"asks {text!r}")
        self._bench, self._question = bench, text
        self._answers, self._declared, self._timeout = list(answers), declared, timeout

    def steps(self, began: float) -> Steps[str]:
        """Raise `LookupError` if nobody can answer and no answer is declared.

        `StepTimeout` if nobody answers in time and no answer is declared.
        """
        bench, text = self._bench, self._question
        if not bench.prompts.operated:
            if self._declared is None:
                raise LookupError(
                    f"nobody can answer the prompt {text!r} here, and no answer to it is declared; "
                    f"{_remedy(self._answers)}"
                )
            bench.report(ANSWER, f"{text}: {self._declared}")
            return self._declared
        question = bench.prompts.open(text, self._answers, self._declared, began + self._timeout)
        try:
            bench.report(ASK, msgspec.json.encode(question).decode())
            while (given := bench.prompts.given(question)) is None:
                if bench.now - began >= self._timeout - EPS:
                    return self._not_answered()
                yield PAUSE
        finally:
            bench.prompts.close(question)
        answer, who = given
        bench.report(ANSWER, f"{text}: {answer} (by {who})")
        return answer

    def _not_answered(self) -> str:
        nobody = f"nobody answered within {self._timeout:g} s"
        if self._declared is None:
            raise StepTimeout(
                f"the prompt {self._question!r}: {nobody}, and no answer to it is declared; "
                f"{_remedy(self._answers)}"
            )
        self._bench.report(ANSWER, f"{self._question}: {self._declared} (declared; {nobody})")
        return self._declared


def _remedy(answers: Collection[str]) -> str:
    return f"add it to `answers` of the sequence's table, one of {', '.join(answers)}"


def checked(text: str, answers: Collection[str], declared: str | None) -> list[str]:
    """The possible answers; `ValueError` for an invalid question or answer."""
    if not text or len(text) > MAX_QUESTION or not text.isprintable():
        raise ValueError(f"prompt: {text!r}: must be one line of 1 to {MAX_QUESTION} characters")
    found = [] if isinstance(answers, str) else list(answers)
    one_line = all(isinstance(a, str) and a and a.isprintable() for a in found)
    if not one_line or not 1 <= len(found) <= MAX_ANSWERS or len(set(found)) < len(found):
        raise ValueError(
            f"prompt: answers = {answers!r}: must be 1 to {MAX_ANSWERS} different texts"
        )
    if (longest := max(found, key=len)) and len(longest) > MAX_ANSWER:
        raise ValueError(f"prompt: the answer {longest!r} has more than {MAX_ANSWER} characters")
    if declared is not None and declared not in found:
        raise ValueError(f"answer {declared!r} to {text!r}: is not one of {', '.join(found)}")
    return found
