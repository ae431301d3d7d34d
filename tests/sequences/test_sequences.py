"""What a sequence sets, waits for and tells, step by step, without a session."""

import asyncio
import json
import math
import re

import numpy as np
import pytest

from hilrt.errors import ConfigError, SolverError
from hilrt.sequences.bench import Setting
from hilrt.sequences.sequence import Sequence, SequenceStepper, ports_of
from hilrt.sequences.steps import StepTimeout
from hilrt.solver import InputPolynomial, Port
from tests.sequences.driving import Driven

DRIVES = (Port("pedal", "%", max=100.0), Port("speed"))


def sequence(run, reads=(), drives=DRIVES):
    """An instance of a class with that `run`."""
    names = {"reads": reads, "drives": drives, "run": lambda self, bench: run(bench)}
    return type("Made", (Sequence,), names)()


def column(driven, i):
    return [values[i] for values in driven.values]


def test_a_ramp_begins_with_the_next_output_and_ends_when_its_value_has_left():
    waited = []

    async def run(bench):
        waited.append(await bench.ramp("pedal", to=20.0, rate=80.0))
        waited.append(await bench.ramp("pedal", to=0.0, time=0.2))

    driven = Driven(sequence(run)).step(10)
    assert column(driven, 0) == pytest.approx([0.0, 8.0, 16.0, 20.0, 10.0, 0.0, 0.0])
    assert column(driven, 2) == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert [w.elapsed for w in waited] == pytest.approx([0.3, 0.2])
    assert waited[1].t == pytest.approx(0.5)
    assert driven.ended == "the sequence has ended"


def test_a_step_acts_from_the_next_communication_point_where_it_is_over():
    times = []

    async def run(bench):
        await bench.step("pedal", to=60.0)
        times.append(bench.now)
        await bench.hold("pedal", 0.3)
        times.append(bench.now)
        bench.release("pedal")
        await bench.wait(0.1)

    driven = Driven(sequence(run)).step(10)
    assert column(driven, 0) == [0.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0]
    assert column(driven, 2) == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    assert times == pytest.approx([0.1, 0.4])


def test_until_ends_with_the_sample_from_which_on_the_condition_held():
    waits = []

    async def run(bench):
        waits.append(await bench.until(lambda: bench.read("e.n") > 2.0, timeout=9.0))
        waits.append(await bench.until(lambda: bench.read("e.n") > 4.0, timeout=9.0, stays=0.2))

    Driven(sequence(run, reads=("e.n",)), {"e.n": lambda t: 10.0 * t}).step(20)
    assert [w.t for w in waits] == pytest.approx([0.3, 0.5])
    assert [w.elapsed for w in waits] == pytest.approx([0.3, 0.2])


def test_conditions_are_expressions_whose_filters_begin_with_the_step():
    waits = []

    async def run(bench):
        waits.append(await bench.until("e.n > 2 and known(e.n)", timeout=9.0))
        waits.append(await bench.until("mean(e.n, 0.2) > 4.0", timeout=9.0))

    driven = Driven(sequence(run, reads=("e.n", "e.m")), {"e.n": lambda t: 10 * t, "e.m": abs})
    driven.step(20)
    assert [w.t for w in waits] == pytest.approx([0.3, 0.5], abs=0.11)
    assert (
        "waits for e.n > 2 and known(e.n), at most 9 s, until 9.0 s"
        in driven.told("sequence_step")[0]
    )


@pytest.mark.parametrize("text", ["", "e.n > 1"])
def test_what_is_not_known_is_no_condition_that_holds_and_the_time_out_says_so(text):
    async def run(bench):
        await bench.until(text or (lambda: bench.read("e.n")), timeout=np.float64(0.2))

    reads = [*(f"e.m{i}" for i in range(9 if text else 0)), "e.n"]
    signals = dict.fromkeys(reads, lambda t: 1.0) | {"e.n": lambda t: math.nan}
    driven = Driven(sequence(run, reads=reads), signals)
    with pytest.raises(SolverError, match=r"did not hold within 0\.2 s \(e.n is unknown\)"):
        driven.step(5)


def test_a_time_out_counts_session_time_and_names_line_and_readings():
    async def run(bench):
        await bench.until(lambda: bench.read("e.n") > 120, timeout=0.5)

    driven = Driven(sequence(run, reads=("e.n",)), {"e.n": lambda t: 7.0})
    driven.step(5)
    said = r"StepTimeout: .* did not hold within 0.5 s \(e.n = 7\) \(test_sequences.py:\d+\)"
    with pytest.raises(SolverError, match=said) as error:
        driven.step()
    line = run.__code__.co_firstlineno + 1
    assert str(error.value).endswith(f"test_sequences.py:{line})")
    assert isinstance(error.value.__cause__, TimeoutError)


def test_a_time_out_can_be_caught_and_clean_up_has_session_time():
    async def run(bench):
        try:
            await bench.until(lambda: False, timeout=0.2)
        except StepTimeout:
            await bench.ramp("pedal", to=10.0, rate=100.0)
        finally:
            await bench.step("pedal", to=0.0)

    assert column(Driven(sequence(run)).step(9), 0) == [0.0, 0.0, 0.0, 10.0, 0.0, 0.0]


def test_every_step_tells_its_line_before_it_acts():
    seen = []

    async def run(bench):
        await bench.step("pedal", to=60.0)
        await bench.wait(0.1)

    driven = Driven(sequence(run))
    tell = driven.stepper.bench.forward
    driven.stepper.report_to(
        lambda cause, text: seen.append(driven.bench.driven_value("pedal")) or tell(cause, text)
    )
    driven.step(3)
    first = run.__code__.co_firstlineno
    steps = [f"test_sequences.py:{first + 1}: steps pedal to 60"]
    steps += [f"test_sequences.py:{first + 2}: waits 0.1 s"]
    assert driven.told("sequence_step") == steps
    assert seen[0] == 0.0


def test_branches_go_on_in_the_order_of_their_creation():
    order = []

    async def run(bench):
        async def branch(name, duration):
            order.append((name, round(bench.now, 6)))
            await bench.wait(duration)
            order.append((name, round(bench.now, 6)))
            return name

        order.append(await bench.together(branch("b", 0.2), branch("a", 0.1), bench.wait(0.1)))

    Driven(sequence(run)).step(9)
    *steps, results = order
    assert steps == [("b", 0.0), ("a", 0.0), ("a", 0.1), ("b", 0.2)]
    assert results[:2] == ["b", "a"]
    assert results[2].elapsed == pytest.approx(0.1)


def test_what_a_branch_raises_ends_the_others_which_clean_up_without_time():
    ended = []

    async def run(bench):
        async def waits(name):
            try:
                await bench.wait(9.0)
            finally:
                ended.append(name)
                await bench.step("pedal", to=50.0)
                ended.append("never")

        async def fails():
            await bench.wait(0.1)
            raise ValueError("gear")

        try:
            await bench.together(waits("b"), fails(), waits("a"))
        except ValueError as error:
            ended.append(str(error))
        await bench.step("speed", to=1.0)

    driven = Driven(sequence(run)).step(9)
    assert ended == ["b", "a", "gear"]
    assert driven.values[-1] == [0.0, 1.0, 0.0, 0.0]


def test_what_one_branch_raises_in_its_clean_up_keeps_no_other_from_it():
    ended = []

    async def waits(bench, name, wrong=""):
        try:
            await bench.wait(9.0)
        finally:
            ended.append(name)
            if wrong:
                raise ValueError(wrong)

    async def fails(bench):
        await bench.wait(0.1)
        raise KeyError("gear")

    async def run(bench):
        await bench.together(waits(bench, "a", "valve"), fails(bench), waits(bench, "b"))

    said = r"KeyError: 'gear'; the clean-up of a branch raised ValueError: valve \("
    with pytest.raises(SolverError, match=said):
        Driven(sequence(run)).step(5)
    assert ended == ["a", "b"]

    async def ends(bench):
        await bench.together(waits(bench, "c", "valve"), waits(bench, "d", "tap"))

    driven = Driven(sequence(ends)).step(2)
    with pytest.raises(ValueError, match="valve") as error:
        driven.stepper.stop("Ctrl-C")
    assert error.value.__notes__ == ["the clean-up of a branch raised ValueError: tap"]
    assert ended[2:] == ["c", "d"]


def bare():
    class Bare:
        def __await__(self):
            yield

    return Bare()


@pytest.mark.parametrize(
    ("awaited", "text"),
    [
        (lambda: asyncio.sleep(1.0), "no running event loop"),
        (lambda: asyncio.sleep(0), "awaits something from another library"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_awaiting_anything_else_is_an_error_that_names_the_line(awaited, text, inside):
    async def own(bench):
        await awaited()

    async def run(bench):
        await (bench.together(own(bench)) if inside else own(bench))

    line = own.__code__.co_firstlineno + 1
    with pytest.raises(SolverError, match=rf"{text}.*\(test_sequences.py:{line}\)"):
        Driven(sequence(run)).step()


@pytest.mark.parametrize("inside", [False, True])
def test_an_error_that_the_sequence_swallows_ends_it_all_the_same(inside):
    async def swallows(bench):
        while True:
            try:
                await bare()
            except TypeError:
                await bench.wait(1.0)

    async def run(bench):
        await (bench.together(swallows(bench)) if inside else swallows(bench))

    with pytest.raises(SolverError, match="awaits something from another library"):
        Driven(sequence(run)).step()


def test_a_step_that_is_not_awaited_is_an_error():
    async def run(bench):
        bench.ramp("pedal", to=20.0, rate=50.0)
        await bench.wait(1.0)

    line = run.__code__.co_firstlineno + 1
    with pytest.raises(SolverError, match=rf"py:{line}: ramps pedal to 20, .* is not awaited"):
        Driven(sequence(run)).step()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda bench: bench.step("pedals", to=1.0), "not among `drives`; did you mean 'pedal'"),
        (lambda bench: bench.step("pedal", to=101.0), "pedal to 101: lies outside -inf to 100"),
        (lambda bench: bench.step("speed", to=math.nan), "speed to nan: lies outside"),
        (lambda bench: bench.ramp("pedal", to=1.0), "either rate or time"),
        (lambda bench: bench.ramp("pedal", to=1.0, rate=-1.0), "rate = -1.0: must be a finite"),
        (lambda bench: bench.ramp("pedal", to=1.0, time=0.0), "time = 0.0: must be a finite"),
        (lambda bench: bench.ramp("pedal", to=1.0, rate=math.inf), "rate = inf: must be a finite"),
        (lambda bench: bench.wait(0.0), "duration = 0.0: must be a finite number above 0"),
        (lambda bench: bench.wait(math.inf), "duration = inf: must be a finite number above 0"),
        (lambda bench: bench.until("e.n > 1", timeout=math.inf), "timeout = inf: must be a finite"),
        (lambda bench: bench.until("e.n > 1", timeout=1.0, stays=2.0), "from 0 to timeout = 1"),
        (lambda bench: bench.until("e.n > 1", timeout=1.0, stays=math.nan), "stays = nan"),
        (lambda bench: bench.until(True, timeout=1.0), "until: True is not a condition"),
        (lambda bench: bench.until("e.m > 1", timeout=1.0), "e.m"),
        (lambda bench: bench.until("e.n >", timeout=1.0), "e.n >"),
        (lambda bench: bench.measure("x", 1.0, max=math.nan), "max = nan: must be a finite"),
        (lambda bench: bench.measure("x", 1.0, min=math.inf), "min = inf: must be a finite"),
        (lambda bench: bench.measure("x", 1.0, min=2.0, max=1.0), "min = 2 is above max = 1"),
        (lambda bench: bench.measure("x", "high"), "could not convert"),
        (lambda bench: bench.expect("x", always="e.n > 1", for_=math.nan), "for"),
        (lambda bench: bench.read("e.m"), "'e.m' is not among `reads`; did you mean 'e.n'"),
        (lambda bench: bench.prompt("warm?"), "nobody can answer the prompt 'warm\\?' here"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_line(call, text):
    async def run(bench):
        await call(bench)

    line = run.__code__.co_firstlineno + 1
    with pytest.raises(SolverError, match=text) as error:
        Driven(sequence(run, reads=("e.n",)), {"e.n": lambda t: 0.0}).step()
    place = re.search(r"\(test_sequences.py:(\d+)\)$", str(error.value))
    assert place is not None
    assert int(place[1]) in (line, call.__code__.co_firstlineno)


def test_results_recordings_prompts_and_notes_are_told():
    async def run(bench):
        bench.log("begins")
        assert await bench.prompt("coolant warm?") == "yes"
        async with bench.recording("tip-in"):
            await bench.wait(0.1)
        assert bench.measure("rise time", 0.31, unit="s", max=0.4)
        assert not bench.measure("overshoot", float("nan"), max=5.0)
        assert not bench.measure("undershoot", None)
        assert not bench.measure("peak", math.inf, min=5.0)

    driven = Driven(sequence(run), answers={"coolant warm?": "yes"}).step(5)
    told = [(t, cause) for t, cause, _ in driven.events if cause != "sequence_step"]
    assert told == [
        *((0.0, cause) for cause in ("sequence_log", "prompt", "recording_begin")),
        *((pytest.approx(0.1), cause) for cause in ("recording_end", *["measure"] * 4)),
    ]
    rise, *unknown = map(json.loads, driven.told("measure"))
    expected = {"name": "rise time", "value": 0.31, "unit": "s", "max": 0.4}
    assert rise == {**expected, "t": pytest.approx(0.1)}
    assert [one["value"] for one in unknown] == [None] * 3
    assert driven.told("sequence_log")[0].endswith(": begins")


def test_the_end_of_the_session_lets_it_clean_up_without_time():
    ended = []

    async def run(bench):
        try:
            async with bench.recording("all"):
                await bench.wait(9.0)
        finally:
            ended.append(bench.now)
            await bench.ramp("pedal", to=0.0, rate=1.0)
            ended.append("never")

    driven = Driven(sequence(run)).step(3)
    driven.stepper.stop("Ctrl-C")
    driven.stepper.stop("again")
    assert ended == [pytest.approx(0.2)]
    assert driven.told("recording_end") == ["all"]


def test_after_late_ticks_the_samples_are_those_of_the_newest_one():
    seen = []

    async def run(bench):
        while True:
            seen.append((bench.now, bench.end, bench.read("e.n")))
            await bench.wait(0.001)

    stepper = SequenceStepper(sequence(run, reads=("e.n",)), Setting(step=0.1))
    stepper.initialize(0.0, np.array([1.0]))
    for t, h, value in ((0.0, 0.1, 1.0), (0.1, 0.3, 2.0)):
        stepper.advance(t, h, InputPolynomial(t, np.array([[value]])))
    assert seen == [(0.0, 0.1, 1.0), (pytest.approx(0.3), pytest.approx(0.4), 2.0)]


@pytest.mark.parametrize(
    ("reads", "drives", "text"),
    [
        ("engine.speed", (), "write a tuple of texts"),
        (("speed",), (), "write it as subsystem.port"),
        (("a.x", "a.x"), (), "names a signal twice"),
        ((), Port("x"), "write a tuple"),
        ((), (Port("x", size=2),), "several elements"),
        ((), (Port("x"), Port("x")), "drives a port twice"),
    ],
)
def test_ports_that_cannot_be_are_refused(reads, drives, text):
    with pytest.raises(ConfigError, match=text):
        ports_of(sequence(None, reads, drives))
