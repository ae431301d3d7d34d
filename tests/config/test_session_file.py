"""Reading a session file: every problem at once, each with table, key, value and remedy."""

import textwrap
from typing import Any

import msgspec
import pytest

from hilrt.config import registry
from hilrt.config.from_toml import REMOVED
from hilrt.config.session_file import load_session, read_session
from hilrt.config.structs import SubsystemOptions
from hilrt.errors import ConfigError
from hilrt.link import Link

GOOD = """
[session]
name = "two-mass"
duration = 10
pace = "asap"

[master]
step = 0.001
extrapolation = { order = 1 }

[subsystems.one]
adapter = "inprocess"
model = "models:One"

[subsystems.two]
adapter = "inprocess"
model = "models:Two"
params = { mass = 2.0 }

[[connections]]
from = "one.force"
to = "two.force"

[[connections]]
from = "two.velocity"
to = "one.velocity"
gain = 1

[[bonds]]
name = "spring"
effort = "one.force"
flow = "two.velocity"
correction = { method = "energy", mu = 0.5 }
"""


class ModelOptions(SubsystemOptions, kw_only=True):
    """An adapter's table, so that these tests need no adapter."""

    model: str
    path: str = "."
    params: dict[str, Any] = msgspec.field(default_factory=dict)


@pytest.fixture(autouse=True)
def adapter(monkeypatch):
    real = registry.link_class
    fake = type("ModelLink", (Link,), {"Options": ModelOptions})
    monkeypatch.setattr(
        registry, "link_class", lambda name: fake if name == "inprocess" else real(name)
    )


def write(tmp_path, text):
    path = tmp_path / "session.toml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def problems(tmp_path, text, overrides=()):
    with pytest.raises(ConfigError) as caught:
        load_session(write(tmp_path, text), overrides)
    return caught.value.problems


def one_problem(tmp_path, text, overrides=()):
    (problem,) = problems(tmp_path, text, overrides)
    return problem


def test_a_good_file(tmp_path):
    session = load_session(write(tmp_path, GOOD))
    tables = session.tables
    assert tables.session.duration == 10.0
    assert tables.connections[0].source == "one.force"
    assert tables.connections[1].gain == 1.0
    assert tables.bonds[0].correction.mu == 0.5
    assert tables.bonds[0].correction.residual == "sent"
    assert list(tables.subsystems) == ["one", "two"]
    assert session.folder == tmp_path
    assert session.text == GOOD


def test_defaults_are_not_shared_between_files(tmp_path):
    first = load_session(write(tmp_path, GOOD)).tables
    first.subsystems["one"].late.max_misses = 1
    first.master.step_control.tolerance = 9.0
    second = load_session(write(tmp_path, GOOD)).tables
    assert second.subsystems["one"].late.max_misses == 50
    assert second.master.step_control.tolerance == 1.0


@pytest.mark.parametrize("key", REMOVED)
def test_a_removed_key_is_refused_with_the_reason(tmp_path, key):
    table, _, name = key.rpartition(".")
    expected = f"[{table}] {name}: this key was removed: {REMOVED[key]}; delete it"
    text = GOOD + f"[{table}]\n{name} = true\n"
    assert one_problem(tmp_path, text) == f"session.toml: {expected}"
    assert one_problem(tmp_path, GOOD, [f"{key}=true"]) == f"session.toml: {expected}"
    assert read_session(write(tmp_path, text)).problems == [expected]  # for `hilrt check`


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("pace =", "pcae =", "session.toml: [session] pcae: unknown key; did you mean 'pace'?"),
        (
            "gain = 1",
            "gian = 1",
            "session.toml: [connections 2: two.velocity -> one.velocity] gian: unknown key",
        ),
        ("mu = 0.5", "mew = 0.5", "session.toml: [bonds.spring.correction] mew: unknown key; "),
        ("[master]", "[mastre]", "session.toml: [mastre]: unknown table, did you mean"),
        ("model =", "modle =", "session.toml: [subsystems.one] modle: unknown key; did you mean"),
    ],
)
def test_unknown_keys_name_the_nearest(tmp_path, old, new, expected):
    assert any(p.startswith(expected) for p in problems(tmp_path, GOOD.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("duration = 10", 'duration = "long"', "[session] duration = 'long': expected number"),
        ("duration = 10", "duration = -1", "[session] duration = -1: expected number > 0.0"),
        ("duration = 10", "duration = nan", "[session] duration = nan: expected number > 0.0"),
        (
            "[[connections]]",
            '[subsystems.two.jacobian]\nsource = "given"\nD = [[nan]]\n[[connections]]',
            "[subsystems.two.jacobian] D = [[nan]]: is not finite; give a number, or remove it",
        ),
        (
            "[[connections]]",
            '[subsystems.two.jacobian]\nsource = "given"\ngamma = [[[nan]]]\n[[connections]]',
            "[subsystems.two.jacobian] gamma = [[[nan]]]: is not finite; give a number, or remove",
        ),
        ("order = 1", "order = 9", "[master.extrapolation] order = 9: expected whole number <= 5"),
        ("order = 1", "order = 1.5", "[master.extrapolation] order = 1.5: expected whole number"),
        ('pace = "asap"', 'pace = "asp"', "did you mean 'asap'? (or a number)"),
        ('pace = "asap"', "pace = 0", "[session] pace = 0: expected number > 0.0"),
        (
            '"energy"',
            '"enrgy"',
            "[bonds.spring.correction] method = 'enrgy': is not a choice; did you",
        ),
        ('"two-mass"', '"two mass"', "[session] name = 'two mass': has forbidden"),
        ("order = 1 }", "order = 1 }\nlisten = 5", "[master] listen = 5: expected string, got"),
        ('"models:One"', '"m:C"\nspawn = "hilrt"', "spawn = 'hilrt': expected list"),
        (
            '"models:One"',
            '"m:C"\nspawn = ["a", 1]',
            "expected string, got whole number at `value",
        ),
        ('"models:One"', '"m:C"\nlate = 3', "[subsystems.one] late = 3: expected table"),
        (
            '"models:One"',
            '"m:C"\ninputs = { u = 3 }',
            "[subsystems.one.inputs.u]: is 3; it must be",
        ),
        ("{ order = 1 }", "1", "[master] extrapolation = 1: expected table"),
    ],
)
def test_wrong_values(tmp_path, old, new, expected):
    assert expected in one_problem(tmp_path, GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ('name = "two-mass"', "[session] name: is missing; add it"),
        ("step = 0.001", "[master] step: is missing; add it"),
        ('from = "one.force"', "[connections 1] from: is missing; add it"),
        ('flow = "two.velocity"', "[bonds.spring] flow: is missing; add it"),
        ('model = "models:One"', "[subsystems.one] model: is missing; add it"),
        ('adapter = "inprocess"', "[subsystems.one] adapter: is missing; choose one of can, "),
    ],
)
def test_missing_keys(tmp_path, old, expected):
    assert expected in one_problem(tmp_path, GOOD.replace(old, "", 1))


def test_an_adapter_that_does_not_exist(tmp_path):
    problem = one_problem(tmp_path, GOOD.replace('"inprocess"', '"inproces"', 1))
    assert "[subsystems.one] adapter = 'inproces': there is no such adapter" in problem
    assert "inprocess" in problem


def test_names_with_separators(tmp_path):
    text = GOOD.replace("[subsystems.one]", '[subsystems."o.ne"]')
    assert "[subsystems.o.ne]: a subsystem's name cannot contain" in one_problem(tmp_path, text)


def test_everything_wrong_is_said_at_once(tmp_path):
    text = """
    nonsense = 1
    subsystems = { plant = { adapter = "no" }, other = 3 }
    [session]
    duration = -1
    [master]
    step = "fast"
    pacing = { spin = "never", affinity = [-1] }
    [[connections]]
    from = 1
    [[bonds]]
    """
    found = "\n".join(problems(tmp_path, text))
    for expected in (
        "nonsense: is before the first table",
        "[subsystems.plant] adapter = 'no'",
        "[subsystems.other] adapter: is missing",
        "[session] name: is missing",
        "[session] duration = -1",
        "[master] step = 'fast'",
        "[master.pacing] spin = 'never'",
        "[master.pacing] affinity = [-1]",
        "[connections 1] from = 1",
        "[connections 1] to: is missing",
        "[bonds 1] name: is missing",
    ):
        assert expected in found


def test_an_empty_file_and_tables_that_are_none(tmp_path):
    assert [p.partition(": ")[2] for p in problems(tmp_path, "")] == [
        "[subsystems] is empty; add at least one [subsystems.NAME] table",
        "[session]: is missing; add it",
        "[master]: is missing; add it",
    ]
    found = "\n".join(problems(tmp_path, "session = 1\nmaster = []\nsubsystems = 2\nbonds = {}"))
    for expected in ("session = 1", "master = []", "[subsystems]: is 2", "bonds = {}"):
        assert expected in found


def test_a_draft_keeps_what_can_be_used(tmp_path):
    text = GOOD.replace("duration = 10", "duration = -1").replace("mu = 0.5", "mew = 0.5")
    text = text.replace('model = "models:One"', "").replace('from = "one.force"', "")
    draft = read_session(write(tmp_path, text))
    assert len(draft.problems) == 4
    assert draft.broken == {"one"}
    tables = draft.session.tables
    assert tables.session.pace == "asap"
    assert tables.session.name == "two-mass"
    assert list(tables.subsystems) == ["two"]
    assert [connection.source for connection in tables.connections] == ["two.velocity"]
    assert tables.bonds[0].correction.method == "energy"


@pytest.mark.parametrize(
    ("item", "value"),
    [
        ("session.duration=3", lambda t: t.session.duration == 3.0),
        ("session.pace=realtime", lambda t: t.session.pace == "realtime"),
        ('session.pace="asap"', lambda t: t.session.pace == "asap"),
        ("bonds.spring.correction.mu=0.25", lambda t: t.bonds[0].correction.mu == 0.25),
        ("bonds.0.correction.nu=0.1", lambda t: t.bonds[0].correction.nu == 0.1),
        ("connections.0.gain=2", lambda t: t.connections[0].gain == 2.0),
        ("connections.1.offset=-1e3", lambda t: t.connections[1].offset == -1000.0),
        ("master.pacing.affinity=[0, 1]", lambda t: t.master.pacing.affinity == [0, 1]),
        ("reliability.tracking=0.7", lambda t: t.reliability.tracking == 0.7),
        ("subsystems.two.params.mass=3.5", lambda t: t.subsystems["two"].params["mass"] == 3.5),
        ("subsystems.one.path=a=b", lambda t: str(t.subsystems["one"].path) == "a=b"),
    ],
)
def test_overrides(tmp_path, item, value):
    session = load_session(write(tmp_path, GOOD), [item])
    assert value(session.tables)
    assert session.overrides == (item,)
    assert session.text == GOOD


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("duration=3", "--set duration=3: write it as table.key=value"),
        ("session.duration", "--set session.duration: write it as table.key=value"),
        ("bonds.shaft.effort=x", "--set bonds.shaft.effort=x: there is no table 'shaft'"),
        ("alarms.hot.max=1", "--set alarms.hot.max=1: the file has no [[alarms]] to set a key in"),
        ("session.duration=-1", "[session] duration = -1: expected number > 0"),
        ("connections.7.gain=1", "there is no table '7'"),
        ("connections.gain=1", "'connections' is not a table; name a key inside it"),
        ("session.name.first=x", "'name' is not a table; name a key inside it"),
        ("session.durration=3", "[session] durration: unknown key; did you mean 'duration'?"),
        ("session.duration=soon", "[session] duration = 'soon': expected number"),
        ("subsystems.three.model=x", "[subsystems.three] adapter: is missing"),
    ],
)
def test_overrides_that_do_not_fit(tmp_path, item, expected):
    assert expected in one_problem(tmp_path, GOOD, [item])


def test_all_bad_overrides_are_said_at_once(tmp_path):
    assert len(problems(tmp_path, GOOD, ["a=1", "bonds.x.y=1", "session.pcae=1"])) == 3


def test_not_toml(tmp_path):
    assert "session.toml: is not TOML" in one_problem(tmp_path, "[session\nname = 1")


def test_not_utf8(tmp_path):
    path = tmp_path / "session.toml"
    path.write_bytes(b'[session]\nname = "caf\xe9"\n')
    with pytest.raises(ConfigError, match=r"session\.toml: is not UTF-8 text .*; save it as UTF-8"):
        load_session(path)


def test_a_byte_order_mark_is_no_problem(tmp_path):
    path = tmp_path / "session.toml"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert load_session(path).tables.session.name == "two-mass"


def test_a_folder_and_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        load_session(tmp_path)
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read: .*; check the path"):
        load_session(tmp_path / "absent.toml")
