"""Expectations on ten recordings with random faults: by definition, by rtamt, from files."""

import importlib
import math
import warnings

import msgspec
import numpy as np
import pytest

from hilrt.analyze.judge_log import judge_file, log_files
from hilrt.config.structs import Calculated
from hilrt.errors import ConfigError
from hilrt.expect import judge as judge_module
from hilrt.expect.case import Case
from hilrt.expect.expectation import read_spec, read_tables
from hilrt.expect.judge import BATCH_ROWS, Judge
from hilrt.expect.log_signals import LogSignals
from tests.expect.faulty_logs import NAMES, STEP_NS, UNITS, faulty_log, held, write_csv
from tests.expect.reference_stl import robustness

SEEDS = range(10)
SIGNALS = LogSignals(dict(zip(NAMES, UNITS, strict=True)))
SPEED, TORQUE, PEDAL = range(3)
#: Expectations, and the margins of their comparisons from a row, in the order of their text.
CASES = {
    "limit": ({"always": "engine.speed < 150"}, [lambda v: 150 - v[SPEED]]),
    "in time": (
        {"eventually": "engine.torque > 150", "within": 0.5, "from": 0.5},
        [lambda v: v[TORQUE] - 150],
    ),
    "stays": (
        {"eventually": "engine.torque > 140", "for": 0.3, "within": 2.0},
        [lambda v: v[TORQUE] - 140],
    ),
    "until": (
        {"always": "engine.speed > 60", "until": "engine.torque > 120", "within": 0.4},
        [lambda v: v[SPEED] - 60, lambda v: v[TORQUE] - 120],
    ),
    "while": (
        {"always": "engine.torque > 30", "while": "driver.pedal > 50"},
        [lambda v: 50 - v[PEDAL], lambda v: v[TORQUE] - 30],
    ),
    "answers": (
        {
            "formula": "always(implies(driver.pedal > 60, eventually(engine.torque > 125, 0.2)), "
            "0.0, 3.0)"
        },
        [lambda v: 60 - v[PEDAL], lambda v: v[TORQUE] - 125],
    ),
    "both": (
        {"always": "0 < engine.speed < 160 and engine.torque < 220", "for": 3.5},
        [lambda v: v[SPEED], lambda v: 160 - v[SPEED], lambda v: 220 - v[TORQUE]],
    ),
}


def expectation(name):
    return read_tables({"expect": [{"name": name, **CASES[name][0]}]})


def judged(expectations, t, values):
    judge = Judge(expectations, SIGNALS, NAMES, STEP_NS / 1e9)
    judge.take_rows(t, values)
    return judge.finish()


def by_definition(name, t, values):
    """Robustness at the first sample of the time that is judged."""
    (chosen,) = expectation(name)
    margins = {
        atom: [margin(row) for row in held(values).tolist()]
        for atom, margin in zip(chosen.atoms, CASES[name][1], strict=True)
    }
    begin = int(np.searchsorted(t, chosen.timing.since_ns))
    return robustness(chosen.formula, begin, t.tolist(), margins, len(t) - 1)


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_those_of_the_definition(name):
    words = set()
    for seed in SEEDS:
        t, values = faulty_log(seed)
        (outcome,) = judged(expectation(name), t, values)
        direct = by_definition(name, t, values)
        assert outcome.robustness == pytest.approx(direct, abs=1e-12), seed
        assert outcome.result == ("passed" if direct >= 0.0 else "failed"), seed
        words.add(outcome.result)
    assert words == {"passed", "failed"}


def test_outcomes_are_those_of_rtamt():
    """The library's own evaluation in discrete time, whose windows count samples."""
    if importlib.util.find_spec("rtamt") is None:
        pytest.skip("rtamt has no release for this Python")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its parser is generated for an old Python
        rtamt = importlib.import_module("rtamt")
    formulas = {
        "limit": "always(speed <= 150)",
        "stays": "eventually[0:200](always[0:30](torque >= 140))",
        "until": "(speed >= 60) until[0:40] (torque >= 120)",
        "while": "always((pedal <= 50) or (torque >= 30))",
        "answers": "always[0:300]((pedal <= 60) or (eventually[0:20](torque >= 125)))",
    }
    for name, text in formulas.items():
        for seed in SEEDS:
            t, values = faulty_log(seed)
            specification = rtamt.StlDiscreteTimeOfflineSpecification()
            for variable in ("speed", "torque", "pedal"):
                specification.declare_var(variable, "float")
            specification.spec = text
            specification.parse()
            speed, torque, pedal = (column.tolist() for column in held(values).T)
            columns = {"speed": speed, "torque": torque, "pedal": pedal}
            found = specification.evaluate({"time": list(range(len(t))), **columns})[0][1]
            (outcome,) = judged(expectation(name), t, values)
            assert outcome.robustness == pytest.approx(found, abs=1e-12), (name, seed)


def test_rows_one_by_one_come_to_the_same_bit_for_bit():
    """As in a session, whose slack is short: batches wait, and are judged when there is time."""
    for seed in (0, 1):
        t, values = faulty_log(seed)
        expectations = [one for name in CASES for one in expectation(name)]
        clock = iter(range(0, 10**12, 200_000))
        judge = Judge(expectations, SIGNALS, NAMES, STEP_NS / 1e9, lambda: next(clock))  # noqa: B023
        told = []
        judge.on_outcome = told.append
        for k, row in enumerate(values):
            judge.take(int(t[k]), row)
            judge.work(600_000.0 if k % 3 else 0.0)
        early = len(told)
        found = judge.finish()
        assert msgspec.to_builtins(found) == msgspec.to_builtins(judged(expectations, t, values))
        assert 0 < early <= len(told) == len(found)
        assert [outcome.name for outcome in found] == list(CASES)
        assert judge.finish() == found


def test_one_slow_batch_does_not_keep_the_later_ones_waiting():
    """As after a pause of the process; what waits would grow as long as the session lasts."""
    t, values = faulty_log(0)
    values[5, SPEED] = 1000.0
    clock = iter([0, 50_000_000, *range(60_000_000, 10**9, 100_000)])
    names = ("both", "limit")
    expectations = [one for name in names for one in expectation(name)]
    judge = Judge(expectations, SIGNALS, NAMES, STEP_NS / 1e9, lambda: next(clock))
    told = []
    judge.on_outcome = told.append
    for k in range(BATCH_ROWS):
        judge.take(int(t[k]), values[k])
    judge.work(600_000.0)
    before = len(told)
    for _ in range(100):
        judge.work(600_000.0)
    assert [one.name for one in told[before:]] == ["limit"]


def test_rows_that_there_is_no_time_for_are_lost_in_bounded_memory_and_make_no_outcome(monkeypatch):
    monkeypatch.setattr(judge_module, "MAX_WAITING", 10_000)
    t, values = faulty_log(0)
    values[5, TORQUE], values[:, PEDAL] = 151.0, 0.0  # decides "in time" before rows are lost
    values[-1, SPEED] = 1000.0  # breaks "limit" after that
    early = {"name": "early", "eventually": "engine.torque > 150"}
    never = {"name": "never", "eventually": "engine.torque > 1000"}
    tables = read_tables({"expect": [early, never]})
    judge = Judge([*tables, *expectation("limit"), *expectation("while")], SIGNALS, NAMES, 0.01)
    told, said = [], []
    judge.on_outcome, judge.on_loss = told.append, said.append
    for k, row in enumerate(values):
        judge.take(int(t[k]), row)
        if k == len(values) - BATCH_ROWS:
            assert not told
            assert 0 < judge.lost < len(t)
            judge.work(math.inf)
            assert {one.name: one.result for one in told} == {
                "early": "passed",
                "never": "inconclusive",
            }
    found = {one.name: one for one in judge.finish()}
    words = ["passed", "inconclusive", "failed", "inconclusive"]
    assert [one.result for one in found.values()] == words
    assert found["while"].reason.startswith(f"{judge.lost:,} rows from ")
    assert "`hilrt expect` can do it with the log" in found["while"].reason
    assert len(said) == 1


def test_a_defect_of_the_judge_costs_the_outcome_alone(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("broken")

    t, values = faulty_log(0)
    for step in ("take", "finish", "outcome"):
        with monkeypatch.context() as patch:
            patch.setattr(Case, step, broken)
            (outcome,) = judged(expectation("limit"), t, values)
        assert outcome.result == "inconclusive"
        assert "ZeroDivisionError: broken" in outcome.reason


def test_a_violation_is_told_as_soon_as_its_batch_is_judged():
    t, values = faulty_log(0)
    values[5, SPEED] = 1000.0
    judge = Judge(expectation("limit"), SIGNALS, NAMES, STEP_NS / 1e9)
    told = []
    judge.on_outcome = told.append
    for k in range(BATCH_ROWS):
        judge.take(int(t[k]), values[k])
    judge.work(math.inf)
    assert [(one.result, one.t, one.robustness) for one in told] == [("failed", 0.05, -850.0)]
    assert "not engine.speed < 150" in told[0].reason


def test_a_signal_that_falls_silent_is_not_taken_to_stand_still():
    """After `max_age` its value is unknown, and nothing can be said to hold all the time."""
    t, values = faulty_log(3)
    values = held(values)
    values[:, SPEED] = 100.0
    values[150:, SPEED] = np.nan
    (outcome,) = judged(expectation("limit"), t, values)
    assert (outcome.result, outcome.robustness) == ("inconclusive", 50.0)
    assert "no known value" in outcome.reason
    long = {"name": "long", "always": "engine.speed < 150", "max_age": 10.0}
    (outcome,) = judged(read_tables({"expect": [long]}), t, values)
    assert outcome.result == "passed"


def test_a_condition_that_never_came_leaves_nothing_judged():
    t, values = faulty_log(0)
    table = {"name": "n", "when": "driver.pedal > 1000", "eventually": "engine.speed > 0"}
    (outcome,) = judged(read_tables({"expect": [{**table, "within": 1.0}]}), t, values)
    assert outcome.result == "inconclusive"
    assert "never became true" in outcome.reason


def of_rows(table, columns, signals=None, step_ns=STEP_NS):
    """Outcome of one table on columns of values by their names, in a coupled session."""
    units = dict.fromkeys(columns, "")
    signals = signals or LogSignals(units, True)
    judge = Judge(read_tables({"expect": [table]}), signals, [*units], step_ns / 1e9)
    rows = np.column_stack([*columns.values()]).astype(float)
    judge.take_rows(np.arange(len(rows)) * step_ns, rows)
    return judge.finish()[0]


WHEN = {"name": "w", "when": "a.x > 0", "always": "a.y > 0", "for": 0.01, "max_age": 0.001}


@pytest.mark.parametrize(
    ("x", "y", "word"),
    [
        ([-1, 1, 1, -1, -1, -1], [0, 1, 1, 0, 0, 0], "passed"),
        ([-1, 1, 1, np.nan, -1, -1], [0, 1, 1, 0, 0, 0], "inconclusive"),
        ([-1, 1, 1, np.nan, -1, -1], [0, 0, 1, 0, 0, 0], "failed"),  # has happened
        ([-1, -1, np.nan, -1, -1, -1], [0, 0, 0, 0, 0, 0], "inconclusive"),
    ],
)
def test_where_a_trigger_is_unknown_there_may_have_been_one(x, y, word):
    errors = {"a.x:estimated_error": np.zeros(6), "a.y:estimated_error": np.zeros(6)}
    outcome = of_rows(WHEN, {"a.x": x, "a.y": y, **errors})
    assert outcome.result == word
    assert ("is unknown at 1 samples" in outcome.reason) == any(np.isnan(x))


def test_a_condition_inside_an_expression_is_unknown_where_its_signal_is():
    """A comparison with what is unknown is false, and false is what this expects."""
    columns = {"a.x": [0.0, np.nan, 0.0], "a.x:estimated_error": np.zeros(3)}
    table = {"name": "w", "always": "rising(a.x > 5) == 0", "max_age": 0.001}
    assert of_rows(table, columns).result == "inconclusive"
    asks = {**table, "always": "rising(default(a.x, 0) > 5) == 0"}
    assert of_rows(asks, columns).result == "passed"


def test_the_error_of_a_calculated_channel_is_that_of_what_it_is_computed_from():
    """Through a channel that reads another one; exact for a product of which one has an error."""
    calculated = [Calculated("power", "torque * a.w"), Calculated("torque", "a.e - a.f")]
    columns = {"a.e": [3.0, 3.0], "a.f": [1.0, 1.0], "a.w": [10.0, 10.0]}
    columns |= {"calculated.torque": [2.0, 2.0], "calculated.power": [20.0, 20.0]}
    columns |= {f"a.{name}:estimated_error": [e, e] for name, e in (("e", 0.3), ("f", 0.2))}
    columns["a.w:estimated_error"] = [0.0, 0.0]
    for name in ("power", "calculated.power"):
        units = dict.fromkeys(columns, "")
        signals = LogSignals.of_session(units, True, (), calculated)
        outcome = of_rows({"name": "p", "always": f"{name} < 30"}, columns, signals)
        assert (outcome.result, outcome.robustness) == ("passed", 10.0)
        assert outcome.error == pytest.approx(5.0)
        assert outcome.signals == ["calculated.power"]
    del columns["a.f"], columns["a.f:estimated_error"]  # as in a log that was cut
    signals = LogSignals.of_session(dict.fromkeys(columns, ""), True, (), calculated)
    outcome = of_rows({"name": "p", "always": "power < 30"}, columns, signals)
    assert (outcome.result, outcome.error) == ("inconclusive", None)


def test_an_expectation_added_later_begins_with_the_next_row():
    t, values = faulty_log(0)
    judge = Judge(expectation("limit"), SIGNALS, NAMES, STEP_NS / 1e9)
    for k, row in enumerate(values):
        if k == 100:
            judge.expect(expectation("while")[0])
        judge.take(int(t[k]), row)
    later = judge.finish()[1]
    assert (later.name, later.since) == ("while", 1.0)


@pytest.fixture
def folder(tmp_path):
    """A folder of recordings of another tool, and a specification."""
    (tmp_path / "logs" / "b").mkdir(parents=True)
    for seed in range(3):
        write_csv(tmp_path / "logs" / ("b" if seed else "") / f"{seed}.csv", *faulty_log(seed))
    lines = ['[[expect]]\nname = "limit"\nalways = "engine.speed < 150"\n']
    (tmp_path / "spec.toml").write_text("\n".join(lines))
    return tmp_path


def test_files_of_other_tools_come_to_the_same(folder):
    """Without an error of the coupling: there is none."""
    files = log_files([folder / "logs"])
    assert [file.name for file in files] == ["0.csv", "1.csv", "2.csv"]
    chosen = read_spec(folder / "spec.toml")
    for seed, file in enumerate(files):
        found = judge_file(file, chosen)
        t, values = faulty_log(seed)
        assert msgspec.to_builtins(found.outcomes) == msgspec.to_builtins(judged(chosen, t, values))
        assert found.time_s == pytest.approx(3.99)
        assert found.outcomes[0].error == 0.0


def test_what_a_log_does_not_have_is_refused_by_its_name(folder):
    tables = {"expect": [{"name": "x", "always": "engine.speeed < 1"}]}
    with pytest.raises(ConfigError, match=r"engine\.speed"):
        judge_file(folder / "logs" / "0.csv", read_tables(tables))
    tables = {"expect": [{"name": "x", "always": "engine.speed < engine.torque"}]}
    with pytest.raises(ConfigError, match=r"N\*m"):
        judge_file(folder / "logs" / "0.csv", read_tables(tables))
    with pytest.raises(ConfigError, match="no expectations of its own"):
        judge_file(folder / "logs" / "0.csv", None)
    with pytest.raises(ConfigError, match="no such file"):
        log_files([folder / "nothing.csv"])
    (folder / "empty").mkdir()
    with pytest.raises(ConfigError, match="there is no log"):
        log_files([folder / "empty"])


def test_patterns_stand_for_what_matches_in_alphabetical_order(tmp_path):
    for name in ("rep-2", "rep-10", "rep-1", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "session.mcap").touch()
    (tmp_path / "[1].csv").touch()
    found = log_files([tmp_path / "rep-*", tmp_path / "[1].csv", tmp_path / "**" / "*.mcap"])
    names = ["rep-1", "rep-10", "rep-2"]
    assert found == [
        *(tmp_path / name / "session.mcap" for name in names),
        tmp_path / "[1].csv",
        tmp_path / "other" / "session.mcap",
    ]
    with pytest.raises(ConfigError, match=r"run-\*: nothing matches this pattern"):
        log_files([tmp_path / "run-*"])


@pytest.mark.parametrize(
    ("limit", "error", "of_bench", "word"),
    [
        (90.0, 20.0, True, "failed"),  # it has happened, whatever the coupling was
        (90.0, np.nan, True, "failed"),
        (90.0, 20.0, False, "inconclusive"),
        (90.0, np.nan, False, "inconclusive"),
        (90.0, 5.0, False, "failed"),
        (110.0, 20.0, True, "inconclusive"),  # that it was kept counts as far as the coupling does
        (110.0, 5.0, True, "passed"),
    ],
)
def test_a_raw_limit_of_a_bench_is_violated_whatever_the_error(limit, error, of_bench, word):
    units = {"engine.speed": "rad/s", "engine.speed:estimated_error": "rad/s"}
    benches = frozenset({"engine.speed"} if of_bench else ())
    table = {"name": "limit", "always": f"engine.speed < {limit}"}
    judge = Judge(
        read_tables({"expect": [table]}), LogSignals(units, True, benches), [*units], 0.01
    )
    judge.take_rows(np.arange(3) * STEP_NS, np.array([[50.0, 1.0], [100.0, error], [50.0, 1.0]]))
    (outcome,) = judge.finish()
    assert (outcome.result, outcome.robustness) == (word, limit - 100.0)


def test_the_error_of_a_margin_is_the_sum_over_its_signals():
    """Of first order: exact for what is linear in them."""
    units = {"a.x": "", "a.y": "", "a.x:estimated_error": "", "a.y:estimated_error": ""}
    table = {"name": "sum", "always": "2 * a.x - 3 * a.y < 100"}
    judge = Judge(read_tables({"expect": [table]}), LogSignals(units, True), [*units], 0.01)
    judge.take_rows(np.zeros(1, np.int64), np.array([[10.0, 1.0, 0.5, 0.25]]))
    (outcome,) = judge.finish()
    assert (outcome.robustness, outcome.error) == (83.0, 1.75)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("engine.torque", "passed"),  # has an estimate
        ("engine.x[0]", "passed"),
        ("engine.x[1]", "inconclusive"),
        ("engine.torque:sent", "inconclusive"),
        ("engine.body:sent", "inconclusive"),  # beside engine.body.v
        ("engine.body", "inconclusive"),
        ("shaft:power", "inconclusive"),  # a bond and a subsystem of the same name
        ("calculated.engine", "inconclusive"),
        ("engine", "inconclusive"),  # the channel, and no time of the subsystem
        ("engine:age", "passed"),
        ("engine.torque:t_valid", "passed"),
        ("flag:late", "passed"),
        ("master:lateness", "passed"),
    ],
)
def test_where_no_error_is_estimated_it_is_unknown_but_for_times_and_flags(name, word):
    of = ["engine.torque", "engine.x[0]", "engine.x[1]", "engine.torque:sent", "engine.body"]
    of += ["engine.body:sent", "engine.body.v", "shaft.u", "shaft:power", "calculated.engine"]
    of += ["engine:age", "engine.torque:t_valid", "flag:late", "master:lateness"]
    estimates = ["engine.torque:estimated_error", "engine.x[0]:estimated_error"]
    units = dict.fromkeys(of + estimates, "")
    condition = f"{name} < 10" if name == "engine" else f'signal("{name}") < 10'
    table = {"name": "limit", "always": condition}
    judge = Judge(read_tables({"expect": [table]}), LogSignals(units, True), [*units], 0.01)
    judge.take_rows(np.arange(3) * STEP_NS, np.ones((3, len(units))))
    (outcome,) = judge.finish()
    assert outcome.result == word
