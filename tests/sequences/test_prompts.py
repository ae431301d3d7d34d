"""Questions to the operator: who answers, what counts where nobody does, and what is told."""

import json

import pytest

from hilrt.errors import SolverError
from hilrt.monitor.status import MAX_PROMPTS, OpenPrompts
from hilrt.monitor.telemetry import prompt_words
from hilrt.sequences.sequence import Sequence
from hilrt.solver import Port
from tests.sequences.driving import Driven


def asking(said, *questions, timeout=0.3):
    """A sequence that asks one question after another, and notes the answers with their times."""

    async def run(self, bench):
        for question in questions:
            said.append((await bench.prompt(question, timeout=timeout), bench.now))

    return type("Asking", (Sequence,), {"drives": (Port("pedal"),), "run": run})()


def test_an_operators_answer_counts_from_the_next_communication_point_on():
    said = []
    driven = Driven(asking(said, "warm?", timeout=5.0), {}, {"warm?": "yes"}, operated=True)
    driven.step(4)
    assert said == []
    (asked,) = map(json.loads, driven.told("prompt_asked"))
    assert asked == {
        "number": 1,
        "text": "warm?",
        "answers": ["yes", "no"],
        "declared": "yes",
        "until": 5.0,
    }
    assert driven.told("sequence_step")[0].endswith(
        "asks 'warm?' (yes, no), at most 5 s, until 5.0 s"
    )
    driven.stepper.answer(1, "no", "Ada")
    driven.step()
    assert said == [("no", pytest.approx(0.4))]
    assert driven.told("prompt") == ["warm?: no (by Ada)"]
    assert driven.ended


def test_without_an_answer_in_time_the_declared_one_counts_or_the_sequence_fails_with_its_line():
    said = []
    driven = Driven(asking(said, "warm?", "cold?"), {}, {"warm?": "no"}, operated=True).step(4)
    assert said == [("no", pytest.approx(0.3))]
    assert driven.told("prompt") == ["warm?: no (declared; nobody answered within 0.3 s)"]
    driven.stepper.answer(1, "yes", "Ada")
    assert driven.told("sequence_log") == [
        "the answer 'yes' of Ada arrived when no question was open for it"
    ]
    with pytest.raises(SolverError, match=r"'cold\?': nobody answered within 0.3 s.*test_prompts"):
        driven.step(5)


def test_where_nobody_can_answer_the_declared_one_counts_at_once():
    said = []
    driven = Driven(asking(said, "warm?"), {}, {"warm?": "no"}).step()
    assert said == [("no", 0.0)]
    assert driven.told("prompt_asked") == []
    assert driven.ended


@pytest.mark.parametrize("answer", [(2, "yes"), (1, "perhaps")])
def test_an_answer_to_nothing_is_told_and_counts_for_nothing(answer):
    said = []
    driven = Driven(asking(said, "warm?", timeout=5.0), operated=True).step()
    number, text = answer
    driven.stepper.answer(number, text, "Ada")
    driven.stepper.answer(1, "yes", "Eve")
    driven.stepper.answer(1, "no", "Ada")  # a second one, before the first has counted
    driven.step()
    assert said == [("yes", pytest.approx(0.1))]
    assert len(driven.told("sequence_log")) == 2


def test_branches_may_ask_at_the_same_time():
    said = []

    async def run(self, bench):
        said.extend(await bench.together(bench.prompt("a?"), bench.prompt("b?", ("1", "2"))))

    both = type("Both", (Sequence,), {"drives": (Port("pedal"),), "run": run})()
    driven = Driven(both, operated=True).step()
    driven.stepper.answer(2, "2", "Ada")
    driven.stepper.answer(1, "no", "Ada")
    driven.step()
    assert said == ["no", "2"]


@pytest.mark.parametrize(
    ("question", "answers", "text"),
    [
        ("two\nlines?", ("yes",), "must be one line"),
        ("", ("yes",), "must be one line"),
        ("warm?", "yes", "must be 1 to 9 different texts"),
        ("warm?", (), "must be 1 to 9 different texts"),
        ("warm?", ("yes", "yes"), "must be 1 to 9 different texts"),
        ("warm?", tuple("0123456789"), "must be 1 to 9 different texts"),
        ("warm?", ("y" * 61,), "has more than 60 characters"),
        ("cold?", ("yes", "no"), "answer 'maybe' to 'cold\\?': is not one of yes, no"),
    ],
)
def test_what_cannot_be_asked_is_refused(question, answers, text):
    async def run(self, bench):
        await bench.prompt(question, answers)

    one = type("One", (Sequence,), {"drives": (Port("pedal"),), "run": run})()
    with pytest.raises(SolverError, match=text):
        Driven(one, {}, {"cold?": "maybe"}, operated=True).step()


def asked(number=1, until=5.0, **more):
    return json.dumps({"number": number, "text": "warm?", "answers": ["a"], "until": until, **more})


def test_a_session_knows_what_waits_until_it_is_answered_or_its_time_is_over():
    prompts = OpenPrompts()
    prompts.ask("test", asked(7))
    prompts.ask("other", asked(7, 9.0, declared="a"))
    first, second = prompts.waiting(0.0)
    assert (first.number, first.sequence, prompts.own_number(first)) == (1, "test", 7)
    assert prompt_words(first) == "test asks: warm? (until 5.0 s, then the sequence fails)"
    assert prompt_words(second) == "other asks: warm? (until 9.0 s, then the answer “a” counts)"
    assert prompts.find(1.0, 4.9) == first
    assert prompts.find(1.0, 5.0) is None
    prompts.close(second)
    assert prompts.waiting(0.0) == []


@pytest.mark.parametrize("text", ["{", "[]", asked(answers=[]), asked(answers=["a"] * 10)])
def test_what_is_no_question_is_not_shown(text):
    prompts = OpenPrompts()
    prompts.ask("test", text)
    assert prompts.waiting(0.0) == []


def test_a_sequence_that_asks_without_an_end_does_not_fill_the_status():
    prompts = OpenPrompts()
    for number in range(2 * MAX_PROMPTS):
        prompts.ask("test", asked(number))
    assert len(prompts.waiting(0.0)) == MAX_PROMPTS
