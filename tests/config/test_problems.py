"""Lines of tables and keys in a session file."""

import tomllib

import pytest

from hilrt.config.problems import TomlLines
from hilrt.config.read_values import in_words

TEXT = """# a comment
[session]
name = "s"           # 3
duration = 1.0

[subsystems.engine]
outputs = { torque = "Fast.Torque", speed = "Fast.Speed" }
channels = ["a",
]
inputs."crank.J" = { start = 1.0 }
script = \'\'\'
[no.table]
no_key = 1
\'\'\'
[subsystems.engine.inputs.speed]
min = 0.0
[[connections]]
from = "a.y"
[[connections]]
from = "b.y"
to = "a.u"
[[bonds]]
name = "shaft"
correction.method = "energy"
[[record.trigger]]
flag = "alarm"
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("session", 2),
        ("session.name", 3),
        ("session.pace", 2),
        ("subsystems.engine.outputs.torque", 7),
        ("subsystems.engine.channels", 8),
        ("subsystems.engine.inputs.crank.J", 10),
        ("subsystems.engine.inputs.crank.J.start", 10),
        ("subsystems.engine.script", 11),
        ("subsystems.engine.inputs.speed", 15),
        ("subsystems.engine.inputs.speed.min", 16),
        ("subsystems.engine.inputs.speed.max", 15),
        ("connections.0", 17),
        ("connections.0.to", 17),
        ("connections.1.from", 20),
        ("bonds.shaft.correction.method", 24),
        ("bonds.0.correction", 24),
        ("record.trigger.0.flag", 26),
        ("master.step", 0),
        ("no.table", 0),
    ],
)
def test_lines(path, line):
    assert TomlLines(TEXT).of(path) == line


def test_a_list_of_inline_tables_has_the_line_of_its_key():
    lines = TomlLines('connections = [\n { from = "a.y", to = "b.u" },\n { from = "b.y" },\n]\n')
    assert (lines.of("connections.0.to"), lines.of("connections.1"), lines.of("session")) == (
        1,
        1,
        0,
    )


def test_a_value_over_many_lines_is_parsed_once(monkeypatch):
    parsed, loads = [], tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: parsed.append(text) or loads(text))
    entries = "".join(f'  {{ from = "a{i}.y", to = "b.u" }},  # {i}\n' for i in range(100))
    lines = TomlLines(f"connections = [\n{entries}]\n[session]\n")
    assert lines.of("session") == 103
    assert len(parsed) == 2


def test_brackets_and_quotes_in_strings_and_comments_end_nothing():
    text = (
        'a = [ "]", \'[\',  # [ "\n 1 ]\n'
        'b = """x ]"" \\""" """"\n'
        "c = '''[\n{''''\r\n"
        "d = 1 # {\ne = 2\n"
    )
    lines = TomlLines(text)
    assert [lines.of(key) for key in tomllib.loads(text)] == [1, 3, 4, 6, 7]


TABLES = {
    "connections": [{"from": "a.y", "to": "b.u"}, {"from": 1}],
    "alarms": [{"signal": "a.y"}, {"signal": "a.y", "name": "hot"}],
    "start": [{"ramp": {}}],
}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("[connections.0] to = 1: wrong", "[connections 1: a.y -> b.u] to = 1: wrong"),
        ("[connections.1] to: is missing", "[connections 2] to: is missing"),
        ("[alarms.0]: wrong", "[alarms 1: a.y]: wrong"),
        ("[alarms.1] min: wrong", "[alarms 2: hot] min: wrong"),
        ('[start.0.ramp] "a.u": wrong', '[start 1, ramp] "a.u": wrong'),
        ("[bonds.shaft] flow: wrong", "[bonds.shaft] flow: wrong"),
        ("[subsystems.a.inputs.x] start: wrong", "[subsystems.a.inputs.x] start: wrong"),
        ("no place at all", "no place at all"),
    ],
)
def test_entries_of_lists_are_counted_from_one_and_named(line, named):
    assert in_words(line, TABLES) == named
