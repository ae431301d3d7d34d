"""Expressions as programs: order, loops, names, units, and what is shared."""

import pytest

from hilrt.errors import ConfigError
from hilrt.expressions.nodes import lookup_table
from hilrt.expressions.parse import CalculatedChannel, KnownSignals, parse
from hilrt.expressions.program import Program

UNITS = {
    "engine.speed": "rad/s",
    "engine.torque": "Nm",
    "engine.load": "%",
    "oil.t": "degC",
    "air.t": "degC",
    "tank.p": "kPa",
    "line.p": "bar",
    "raw.u": "?",
    "arm.angle": "deg",
}


def program(*texts: str, **channels: str) -> Program:
    known = {name: CalculatedChannel(parse(text)) for name, text in channels.items()}
    return Program.from_texts(texts, KnownSignals(UNITS, known), step=0.001)


def unit_of(text: str) -> str:
    return program(text).units[0]


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("engine.speed", "rad/s"),
        ("engine.speed > 120", ""),
        ("engine.speed + 3", "rad/s"),
        ("max(0, engine.speed)", "rad/s"),
        ("engine.torque * engine.speed", "m*N*rad/s"),
        ("2 / engine.speed", "s/rad"),
        ("sqrt(tank.p ** 2)", "kPa"),
        ("tank.p - line.p", "kPa"),
        ("oil.t - air.t", "K"),
        ("oil.t - air.t + 5", "K"),
        ("oil.t + (oil.t - air.t)", "degC"),
        ("derivative(oil.t)", "K/s"),
        ("derivative(engine.speed)", "rad/s**2"),
        ("integral(engine.torque * engine.speed)", "m*N*rad"),
        ("mean(oil.t, 1)", "degC"),
        ("convert(engine.speed, 'rpm')", "rpm"),
        ("unit(raw.u, 'V')", "V"),
        ("raw.u * engine.speed", "?"),
        ("raw.u + tank.p", "?"),
        ("atan2(tank.p, line.p)", "rad"),
        ("tank.p if engine.speed > 3 else line.p", "kPa"),
        ("count(engine.speed > 3)", ""),
        ("duration(engine.speed > 3)", "s"),
        ("time", "s"),
        ("3 * 4", ""),
    ],
)
def test_units_of_results(text, unit):
    assert unit_of(text) == unit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engine.speed + tank.p", ("'kPa'", "'rad/s'")),
        ("engine.speed > tank.p", ("'kPa'", "'rad/s'")),
        ("min(engine.speed, tank.p)", ("'kPa'", "'rad/s'")),
        ("engine.speed if raw.u else tank.p", ("'kPa'", "'rad/s'")),
        ("exp(engine.torque)", ("'Nm'", "plain number")),
        ("sin(tank.p)", ("'kPa'", "'rad'")),
        ("engine.torque ** engine.speed", ("'rad/s'",)),
        ("oil.t + air.t", ("'degC'", 'convert(x, "K")')),
        ("2 * oil.t", ("'degC'", 'convert(x, "K")')),
        ("rms(oil.t, 1)", ("'degC'",)),
        ("convert(engine.speed, 'bar')", ("'rad/s'", "'bar'")),
        ("convert(engine.speed, 'furlongs per')", ("unknown",)),
        ("unit(raw.u, 'blorp')", ("unknown",)),
        ("engine.sped", ("did you mean 'engine.speed'",)),
        ("lookup('map', engine.speed)", ("there is no lookup table 'map'",)),
    ],
)
def test_what_does_not_fit_is_refused(text, said):
    with pytest.raises(ConfigError) as caught:
        program(text)
    for words in said:
        assert words in str(caught.value)
    assert "column" in str(caught.value)


def test_the_declared_unit_is_held_against_that_of_the_expression():
    text = parse("engine.torque * engine.speed", "[calculated 1: power]")
    kilowatts = KnownSignals(UNITS, {"power": CalculatedChannel(text, "kW")})
    assert Program.from_texts([], kilowatts, step=0.1).channels["power"][1] == "kW"
    newtons = KnownSignals(UNITS, {"power": CalculatedChannel(text, "N")})
    with pytest.raises(ConfigError, match=r"calculated 1: power.*'m\*N\*rad/s'.*'N'"):
        Program.from_texts([], newtons, step=0.1)


def test_channels_stand_behind_what_they_read():
    found = program("b", a="calculated.b + c", b="c + 1", c="engine.load")
    assert found.signals == ("engine.load",)
    order = [found.channels[name][0] for name in ("c", "b", "a")]
    assert order == sorted(order)


def test_loops_are_refused_with_their_path():
    with pytest.raises(ConfigError) as caught:
        program(a="b + 1", b="delay(c, 1)", c="calculated.a + engine.load")
    assert any(
        p in str(caught.value) for p in ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a ->")
    )
    with pytest.raises(ConfigError, match="a -> a"):
        program(a="a")


def test_every_problem_is_told():
    with pytest.raises(ConfigError) as caught:
        program("engine.sped", "1 +", "2 * engine.load", a="oil.t * 2")
    assert len(caught.value.problems) == 3


def test_what_is_alike_is_computed_once():
    one = program("lowpass(engine.load, 1) > 3")
    two = program("lowpass(engine.load, 1) > 3", "3 < lowpass(engine.load, 1)", "engine.load")
    assert len(two.operations) == len(one.operations) == 2


def test_long_windows_are_refused():
    texts = [f"delay(engine.load, {100 + i})" for i in range(60)]
    with pytest.raises(ConfigError, match="windows and delays"):
        program(*texts)


def test_tables_of_the_session():
    table = lookup_table([0, 1], [0, 10], x_unit="rpm", unit="Nm")
    signals = KnownSignals(UNITS, tables={"friction": table})
    found = Program.from_texts(["lookup('friction', engine.speed)"], signals, step=0.1)
    assert found.units == ("Nm",)
    with pytest.raises(ConfigError, match="1 axes"):
        Program.from_texts(["lookup('friction', engine.speed, 3)"], signals, step=0.1)
