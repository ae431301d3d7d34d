"""`hilrt check`: everything that is wrong with a session's meaning, each found, all at once."""

import pytest

from hilrt.check.check import check, check_file
from hilrt.config import registry
from hilrt.config.session_file import load_session
from hilrt.config.structs import SubsystemOptions
from hilrt.config.units import UNSTATED
from hilrt.link import Description, Link, Ports
from hilrt.solver import Port
from hilrt.timing import host

SESSION = """
[session]
name = "drive"
duration = 10.0

[master]
step = 0.001

[subsystems.engine]
adapter = "bench"
inputs.speed = { min = 0.0, max = 650.0, max_rate = 800.0, safe = 0.0 }

[subsystems.vehicle]
adapter = "model"

[[connections]]
from = "engine.torque"
to = "vehicle.torque"

[[connections]]
from = "vehicle.speed"
to = "engine.speed"

[[bonds]]
name = "shaft"
effort = "engine.torque"
flow = "vehicle.speed"
"""

SPEED, TORQUE = Port("speed", "rad/s"), Port("torque", "N*m")


@pytest.fixture
def ports():
    """Ports of the subsystems; tests change them."""
    return {
        "engine": Ports(inputs=(SPEED,), outputs=(TORQUE,)),
        "vehicle": Ports(inputs=(TORQUE,), outputs=(SPEED,)),
    }


@pytest.fixture(autouse=True)
def adapters(monkeypatch, ports):
    """Two adapters: a model, and a bench that keeps real time."""

    class ModelLink(Link):
        Options = SubsystemOptions
        spawns = True

        @classmethod
        def describe(cls, name, options, folder, run_code):
            known = ports[name]
            if isinstance(known, BaseException):
                raise known
            return known if isinstance(known, Description) else Description(ports=known)

    class BenchLink(ModelLink):
        physical = True
        spawns = False

    classes = {"model": ModelLink, "bench": BenchLink}
    monkeypatch.setattr(registry, "link_class", classes.__getitem__)


@pytest.fixture
def found(tmp_path):
    """Function that checks the session with replacements and returns the lines of one level."""

    def run(*replacements, level="error", overrides=(), pace=None):
        text = SESSION
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "session.toml"
        path.write_text(text, encoding="utf-8")
        problems = check(load_session(path, overrides), pace)
        assert all("\n" not in str(problem) for problem in problems)
        return [str(problem) for problem in problems if problem.level == level]

    return run


def test_a_good_session_has_no_problems(found):
    for level in ("error", "warning", "info"):
        assert found(level=level) == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            'from = "engine.torque"',
            'from = "engin.torque"',
            "[connections 1: engin.torque -> vehicle.torque] "
            "from = 'engin.torque': there is no subsystem 'engin'; "
            "did you mean 'engine'?",
        ),
        (
            'from = "engine.torque"',
            'from = "engine.torqe"',
            "[connections 1: engine.torqe -> vehicle.torque] "
            "from = 'engine.torqe': 'engine' has no output 'torqe'; "
            "did you mean 'torque'?",
        ),
        (
            'from = "engine.torque"',
            'from = "engine.speed"',
            "[connections 1: engine.speed -> vehicle.torque] "
            "from = 'engine.speed': 'speed' is not an output of 'engine', "
            "but an input",
        ),
        (
            'to = "vehicle.torque"',
            'to = "vehicle"',
            "[connections 1: engine.torque -> vehicle] "
            "to = 'vehicle': names no port; write it as subsystem.port",
        ),
    ],
)
def test_connections_to_nowhere(found, old, new, line):
    assert line in found((old, new))


def test_different_sizes(found, ports):
    ports["vehicle"] = Ports(inputs=(Port("torque", "N*m", size=3),), outputs=(SPEED,))
    (line,) = found()
    assert line.startswith(
        "[connections 1: engine.torque -> vehicle.torque] "
        "to = 'vehicle.torque': has 3 elements, but"
    )


def test_units_that_do_not_fit(found, ports):
    ports["vehicle"] = Ports(inputs=(Port("torque", "kPa"),), outputs=(SPEED,))
    (line,) = found()
    assert "[connections 1: engine.torque -> vehicle.torque] to = 'vehicle.torque'" in line
    assert "'N*m' does not convert to 'kPa'" in line
    assert line.endswith('give one port the unit "?" and the connection a gain')
    ports["vehicle"] = Ports(inputs=(Port("torque", "?"),), outputs=(SPEED,))
    assert found() == []


def test_units_that_convert_are_fine(found, ports):
    ports["engine"] = Ports(inputs=(Port("speed", "rpm"),), outputs=(Port("torque", "kNm"),))
    assert found() == []


def test_the_same_connection_twice_and_one_that_carries_nothing(found):
    again = '[[bonds]]\n[[connections]]\nfrom = "engine.torque"\nto = "vehicle.torque"\ngain = 0.0'
    lines = found(
        ("[[bonds]]\n", again.removeprefix("[[bonds]]\n") + "\n[[bonds]]\n"), level="warning"
    )
    assert (
        "[connections 3: engine.torque -> vehicle.torque] to = 'vehicle.torque': connection 1 has "
        in lines[0]
    )
    assert (
        "[connections 3: engine.torque -> vehicle.torque] "
        "gain = 0.0: the connection transmits nothing" in lines[1]
    )


def test_an_unconnected_input(found, ports):
    ports["vehicle"] = Ports(inputs=(TORQUE, Port("grade", "rad")), outputs=(SPEED,))
    (line,) = found()
    assert line.startswith("[subsystems.vehicle.inputs.grade] start: input vehicle.grade is not")
    assert 'add [[connections]] to = "vehicle.grade", or start' in line
    held = ('adapter = "model"', 'adapter = "model"\ninputs.grade = { start = 0.1 }')
    assert found(held) == []


def test_an_input_table_for_no_input(found):
    wrong = ('adapter = "model"', 'adapter = "model"\ninputs.torqe = { max = 1.0 }')
    (line,) = found(wrong)
    assert line.startswith("[subsystems.vehicle.inputs] torqe: subsystem 'vehicle' has no such")
    assert "did you mean 'torque'" in line


@pytest.mark.parametrize("key", ["min", "max", "max_rate", "safe"])
def test_missing_bench_limits(found, key):
    limits = {"min": 0.0, "max": 650.0, "max_rate": 800.0, "safe": 0.0}
    del limits[key]
    table = ", ".join(f"{k} = {v}" for k, v in limits.items())
    (line,) = found(("min = 0.0, max = 650.0, max_rate = 800.0, safe = 0.0", table))
    assert line == (
        f"[subsystems.engine.inputs.speed] {key}: is missing; a bench needs it; add it in rad/s"
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("safe = 0.0", "safe = -1.0", "safe = -1.0: lies outside 0 to 650"),
        ("safe = 0.0", "safe = 0.0, start = 700.0", "start = 700.0: lies outside 0 to 650"),
        ("min = 0.0", "min = 1e4", "min = 10000.0: is above max = 650"),
    ],
)
def test_limits_that_contradict_each_other(found, old, new, expected):
    (line,) = found((old, new))
    assert f"[subsystems.engine.inputs.speed] {expected}" in line


BOND = 'flow = "vehicle.speed"'


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (BOND, 'flow = "vehicle.sped"', "[bonds.shaft] flow = 'vehicle.sped': 'vehicle' has no"),
        (BOND, 'flow = "engine.speed"', "[bonds.shaft] flow = 'engine.speed': 'speed' is not an"),
        (BOND, 'flow = "engine.torque"', "comes from 'engine' like the effort"),
        (
            'to = "vehicle.torque"',
            'to = "vehicle.torque"\ngain = -1',
            "[connections 1: engine.torque -> vehicle.torque] "
            "gain = -1.0: the connection carries the effort of bonds.shaft, "
            "so its gain must be 1",
        ),
        (
            'to = "engine.speed"',
            'to = "engine.speed"\noffset = 2',
            "[connections 2: vehicle.speed -> engine.speed] "
            "offset = 2.0: the connection carries the flow of bonds.shaft, "
            "so its offset must be 0",
        ),
        (
            BOND,
            BOND + '\n[[bonds]]\nname = "shaft"\neffort = "engine.torque"\nflow = "vehicle.speed"',
            "[bonds.shaft] name = 'shaft': another bond has that name",
        ),
    ],
)
def test_bonds_that_join_nothing(found, old, new, expected):
    assert any(expected in line for line in found((old, new)))


def test_a_bond_whose_ends_are_not_connected(found, ports):
    ports["vehicle"] = Ports(inputs=(TORQUE,), outputs=(SPEED, Port("other", "rad/s")))
    (line,) = found((BOND, 'flow = "vehicle.other"'))
    assert "[bonds.shaft] flow = 'vehicle.other': is connected to 0 inputs" in line
    assert 'to = "engine.' in line


def test_a_bond_that_is_no_power(found, ports):
    angle = Port("speed", "rad")
    ports["engine"] = Ports(inputs=(angle,), outputs=(TORQUE,))
    ports["vehicle"] = Ports(inputs=(TORQUE,), outputs=(angle,))
    (line,) = found()
    assert "'N*m' of the effort times 'rad' of the flow is not a power" in line


@pytest.mark.parametrize(("speed", "warned"), [("rad/s", True), ("rpm", True), ("N*m", False)])
def test_a_bond_whose_effort_is_a_flow_is_doubted(found, ports, speed, warned):
    torque = "N*m" if warned else "rad/s"
    fast, strong = Port("torque", speed), Port("speed", torque)
    ports["engine"] = Ports(inputs=(strong,), outputs=(fast,))
    ports["vehicle"] = Ports(inputs=(fast,), outputs=(strong,))
    energy = (BOND, BOND + '\ncorrection = { method = "energy", mu = 0.5 }')
    said = f"effort = 'engine.torque': is a flow by its unit '{speed}'"
    for changes in ([energy, ('adapter = "bench"', 'adapter = "model"')], []):
        lines = found(*changes, level="warning")
        assert any(said in line for line in lines) == warned


def test_a_bond_without_units_cannot_be_checked(found, ports):
    ports["engine"] = Ports(inputs=(SPEED,), outputs=(Port("torque", "?"),))
    assert found() == []
    assert "[bonds.shaft]: a unit is missing" in found(level="warning")[0]


@pytest.mark.parametrize("method", ["", 'method = "none", ', 'method = "model", '])
def test_settings_of_the_energy_correction_need_it(found, method):
    mu = (BOND, f"{BOND}\ncorrection = {{ {method}mu = 0.5 }}")
    lines = [line for line in found(mu, level="warning") if ".correction] mu" in line]
    assert len(lines) == 1
    assert 'has no effect on this correction; set method = "energy", or leave it out' in lines[0]


def test_each_energy_correction_tells_its_mu_or_that_it_runs_in_shadow(found, ports):
    energy = (BOND, BOND + '\ncorrection = { method = "energy" }')
    assert found(energy) == []
    (line,) = found(energy, level="warning")
    assert "[bonds.shaft.correction] mu: is not given and not known (there is a bench)" in line
    assert "only runs in shadow; set mu" in line
    through = Port("torque", "N*m", feedthrough=("speed",))
    ports["engine"] = Ports(inputs=(SPEED,), outputs=(through,))
    virtual = (energy, ('adapter = "bench"', 'adapter = "model"'))
    held = "master.extrapolation={order=0}"
    for overrides, expected in (
        ([held], "uses mu = 0.5: single rate"),
        (["bonds.shaft.correction.mu=0.3"], "uses mu = 0.3: as given"),
    ):
        assert found(*virtual, level="warning", overrides=overrides) == []
        (line,) = found(*virtual, level="info", overrides=overrides)
        assert expected in line
    ports["vehicle"] = None
    assert "mu is determined when" in found(*virtual, level="info")[-1]


def test_a_correction_acts_on_a_bench_only_with_leave_and_bound(found):
    flow_on_bench = [
        ('effort = "engine.torque"', 'effort = "vehicle.speed"'),
        (BOND, 'flow = "engine.torque"\ncorrection = { method = "energy", mu = 0.5 }'),
    ]
    (line,) = found(*flow_on_bench)
    assert "[bonds.shaft.correction] method = 'energy': the corrected effort would act on" in line
    leave = "bonds.shaft.correction.permit_on_bench=true"
    (line,) = found(*flow_on_bench, overrides=[leave])
    assert "[bonds.shaft.correction] cap_abs: is missing" in line
    assert found(*flow_on_bench, overrides=[leave, "bonds.0.correction.cap_abs=5"]) == []
    uncapped = "bonds.shaft.correction.method=feedthrough"
    (line,) = found(*flow_on_bench, overrides=[leave, "bonds.0.correction.cap_abs=5", uncapped])
    assert "without its own bound" in line
    on_virtual_side = (BOND, BOND + '\ncorrection = { method = "energy", mu = 0.5 }')
    assert found(on_virtual_side) == []


def test_algebraic_loops_are_named(found, ports):
    assert found(level="warning") == []
    direct = {"feedthrough": ("speed",)}
    ports["engine"] = Ports(inputs=(SPEED,), outputs=(Port("torque", "N*m", **direct),))
    assert found(level="warning") == []
    direct = {"feedthrough": ("torque",)}
    ports["vehicle"] = Ports(inputs=(TORQUE,), outputs=(Port("speed", "rad/s", **direct),))
    (line,) = found(level="warning")
    assert line.startswith("[connections]: algebraic loop ")
    assert "engine.torque -> vehicle.speed" in line or "vehicle.speed -> engine.torque" in line


def test_feedthrough_from_no_input(found, ports):
    ports["vehicle"] = Ports((TORQUE,), (Port("speed", "rad/s", feedthrough=("torqe",)),))
    (line,) = found()
    assert "output 'speed' has a feedthrough from 'torqe', which is not an input; did you" in line


@pytest.mark.parametrize("pace", ["asap", 2.0, 0.5])
def test_a_bench_keeps_real_time(found, pace):
    (line,) = found(pace=pace)
    assert line == (
        f"[session] pace = {pace!r}: 'engine' runs in real time and cannot be sped up or slowed "
        "down; "
        'use "realtime"'
    )
    assert found(("bench", "model"), pace=pace) == []


def test_a_variable_step_needs_virtual_time(found):
    pi = ("step = 0.001", 'step = 0.001\nstep_control = { method = "pi", tolerance = 0.01 }')
    (line,) = found(pi)
    assert line.startswith("[master.step_control] method = 'pi': a variable step is not possible")
    assert found(pi, ("bench", "model"), pace="asap") == []


def test_multi_rate_needs_a_fixed_step(found):
    every = ('adapter = "model"', 'adapter = "model"\nevery = 10')
    assert found(every) == []
    pi = ("step = 0.001", 'step = 0.001\nstep_control = { method = "pi", tolerance = 0.01 }')
    (line,) = found(every, pi, ("bench", "model"), pace="asap")
    assert line.startswith("[subsystems.vehicle] every = 10: needs a fixed step")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("step = 0.001", f"step = {1 / 3}", "is not a whole number of nanoseconds; use 0.333333"),
        ("step = 0.001", "step = 1e-10", "[master] step = 1e-10: is below a nanosecond"),
        ("duration = 10.0", "duration = 0.0001", "duration = 0.0001: is shorter than one step"),
        (
            "step = 0.001",
            "step = 0.001\nstep_control = { minimum = 1, maximum = 0.1 }",
            "[master.step_control] minimum = 1.0: is above maximum = 0.1",
        ),
        (
            "step = 0.001",
            "step = 0.001\nstep_control = { initial = 1e-4, minimum = 1e-3 }",
            "[master.step_control] initial = 0.0001: lies outside minimum = 0.001",
        ),
    ],
)
def test_times(found, old, new, expected):
    (line,) = found((old, new))
    assert expected in line


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("session.duration", "[session] duration"),
        ("session.pace", "[session] pace"),
        ("master.arm_timeout", "[master] arm_timeout"),
        ("master.connect_timeout", "[master] connect_timeout"),
        ("master.pacing.spin", "[master.pacing] spin"),
        ("subsystems.engine.inputs.speed.max_rate", "[subsystems.engine.inputs.speed] max_rate"),
        ("alarms.0.delay", "[alarms 1: engine.torque] delay"),
        ("alarms.0.max_rate", "[alarms 1: engine.torque] max_rate"),
        ("stop.0.timeout", "[stop 1] timeout"),
        ("match.0.tolerance", "[match 1: engine.torque] tolerance"),
    ],
)
def test_infinity_does_not_switch_a_protection_off(tmp_path, key, place):
    path = tmp_path / "session.toml"
    more = """
[[alarms]]
signal = "engine.torque"
max = 200.0
[[stop]]
ramp = { "engine.speed" = 0.0 }
[[match]]
signal = "engine.torque"
to = 0.0
tolerance = 1.0
"""
    path.write_text(SESSION + more, encoding="utf-8")
    assert [str(p) for p in check_file(path) if p.level == "error"] == []
    (line, *_) = [str(p) for p in check_file(path, [f"{key}=inf"]) if p.level == "error"]
    assert line == f"{place} = inf: is not finite; give a number"


@pytest.mark.parametrize("value", ["nan", "-inf"])
@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("connections.0.offset", "[connections 1: engine.torque -> vehicle.torque] offset"),
        ("connections.0.gain", "[connections 1: engine.torque -> vehicle.torque] gain"),
        ("subsystems.engine.inputs.speed.min", "[subsystems.engine.inputs.speed] min"),
        ("subsystems.engine.inputs.speed.safe", "[subsystems.engine.inputs.speed] safe"),
    ],
)
def test_numbers_of_a_session_file_are_finite(tmp_path, key, place, value):
    path = tmp_path / "session.toml"
    path.write_text(SESSION, encoding="utf-8")
    (line, *_) = [str(p) for p in check_file(path, [f"{key}={value}"]) if p.level == "error"]
    assert line == f"{place} = {value}: is not finite; give a number, or remove it"


@pytest.mark.parametrize("step", ["0.001", "0.1", "0.0003", "0.005", "0.07", "1e-6", "2.5"])
def test_steps_that_are_whole_nanoseconds(found, step):
    assert found(("step = 0.001", f"step = {step}")) == []


def test_processors_that_the_host_lacks(found, monkeypatch):
    monkeypatch.setattr(host, "available_cpus", lambda: [0, 1])
    pinned = ("step = 0.001", "step = 0.001\npacing = { affinity = [1, 7] }")
    assert found(pinned) == []
    (line,) = found(pinned, level="warning")
    assert line.startswith("[master.pacing] affinity = [1, 7]: this host has no processors")
    assert "[7]" in line


@pytest.mark.parametrize(
    "listen",
    ["banana", "localhost:5555", "tcp://127.0.0.1", "tcp://:5555", "tcp://*:70000", "ipc://"],
)
def test_a_listen_that_is_no_address(found, listen):
    (line,) = found(("step = 0.001", f'step = 0.001\nlisten = "{listen}"'))
    assert line.startswith(f"[master] listen = '{listen}': is not an address; write it as tcp://")


@pytest.mark.parametrize("listen", ["tcp://[::1]:5555", "tcp://localhost:*", "ipc:///run/x"])
def test_a_listen_for_this_machine(found, listen):
    assert found(("step = 0.001", f'step = 0.001\nlisten = "{listen}"')) == []


def test_a_listen_for_others_is_refused(found):
    (line,) = found(("step = 0.001", 'step = 0.001\nlisten = "tcp://*:5555"'))
    assert "can be reached by other machines" in line


def test_a_command_that_nobody_starts_is_an_error(found, monkeypatch):
    monkeypatch.setattr(registry.link_class("model"), "spawns", False)
    (line,) = found(('adapter = "model"', 'adapter = "model"\nspawn = ["hilrt", "solver"]'))
    assert "[subsystems.vehicle] spawn" in line
    assert "is not used by the adapter 'model'" in line


@pytest.mark.parametrize(
    ("adapter", "spawn"),
    [
        ("bench", '["hilrt", "solver"]'),
        ("model", '["hilrt", "gateway", "--subsystem", "engine"]'),
        ("model", '["env", "/opt/bin/hilrt gateway --subsystem engine"]'),
    ],
)
def test_a_gateway_on_another_machine_is_refused(found, adapter, spawn):
    (line,) = found((f'adapter = "{adapter}"', f'adapter = "{adapter}"\nspawn = {spawn}'))
    assert "] spawn = [" in line
    assert "a gateway on another machine is not supported; leave it out" in line
    assert 'see "Who may connect" in the documentation' in line


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ("bench", "is a bench, which is never armed again"),
        ("model", "runs in the master's process"),
    ],
)
def test_who_cannot_come_back(found, adapter, words):
    late = f'adapter = "{adapter}"\nlate = {{ rejoin = true }}'
    (line,) = found((f'adapter = "{adapter}"', late))
    assert ".late] rejoin = True: " + words in line


def test_a_bench_does_not_catch_up(found):
    late = 'adapter = "bench"\nlate = { steps = "catch_up" }'
    (line,) = found(('adapter = "bench"', late))
    assert ".late] steps = 'catch_up': is a bench" in line


def test_a_command_that_does_not_exist(found):
    (line,) = found(('adapter = "model"', 'adapter = "model"\nspawn = ["no-such-program"]'))
    assert line.startswith("[subsystems.vehicle] spawn = ['no-such-program']: command")


def test_ports_that_are_known_only_later_are_not_checked(found, ports):
    ports["vehicle"] = None
    assert found() == []
    (line,) = found(level="info")
    assert line.startswith("[subsystems.vehicle]: announces its ports when it connects")
    assert "'engin'" in found(('from = "engine.torque"', 'from = "engin.torque"'))[0]


def test_a_model_that_cannot_be_loaded(found, ports):
    ports["vehicle"] = ZeroDivisionError("in its constructor")
    (line,) = found()
    assert line == (
        "[subsystems.vehicle]: its ports cannot be determined: "
        "ZeroDivisionError: in its constructor; correct the model"
    )
    problems = ["[subsystems.vehicle] model = 'x': no such", "and more"]
    ports["vehicle"] = Description(problems=problems)
    assert found() == [
        "[subsystems.vehicle] model = 'x': no such",
        "[subsystems.vehicle]: and more",
    ]


def test_known_ports_are_checked_whatever_else_is_wrong(found, ports):
    wrong = "[subsystems.engine] outputs.torque = 'Fast.Toque': no such signal"
    known = Ports(inputs=(Port("speed", "kPa"), Port("pedal", "%")), outputs=(TORQUE,))
    ports["engine"] = Description(problems=[wrong], ports=known, unclear=frozenset(["torque"]))
    no_limits = ("min = 0.0, max = 650.0, max_rate = 800.0, safe = 0.0", "start = 0.0")
    lines = found(no_limits, ('to = "vehicle.torque"', 'to = "vehicle.torqe"'))
    assert lines[0] == wrong  # and limits that are missing are said by the bench itself
    assert "input engine.pedal is not connected" in lines[1]
    assert "input vehicle.torque is not connected" in lines[2]
    assert "did you mean 'torque'" in lines[3]
    assert (
        "[connections 2: vehicle.speed -> engine.speed] "
        "to = 'engine.speed': from 'vehicle.speed': unit 'rad/s'" in lines[4]
    )
    assert len(lines) == 5


def test_nothing_is_said_of_a_port_of_which_only_the_name_is_known(found, ports):
    known = Ports(inputs=(SPEED,), outputs=(Port("torque", UNSTATED),))
    ports["engine"] = Description(problems=["wrong"], ports=known, unclear=frozenset(["torque"]))
    assert found(level="warning") == []
    assert found() == ["[subsystems.engine]: wrong"]
    assert any("no output 'torqe'" in x for x in found(('"engine.torque"', '"engine.torqe"')))


def test_problems_say_where_they_are(tmp_path):
    path = tmp_path / "session.toml"
    path.write_text(SESSION.replace("engine.torque", "engine.torqe"), encoding="utf-8")
    problem = check(load_session(path))[0]
    assert (problem.level, problem.table, problem.key) == ("error", "connections.0", "from")
    assert problem.value == "engine.torqe"


def test_structure_and_meaning_are_said_together(tmp_path):
    text = SESSION.replace("duration", "duraton").replace('to = "engine.speed"', 'to = "engine.x"')
    path = tmp_path / "session.toml"
    path.write_text(text.replace('name = "shaft"', 'name = "shaft"\nflw = 1'), encoding="utf-8")
    lines = [str(problem) for problem in check_file(path, pace="asap")]
    for expected in (
        "[session] duraton: unknown key; did you mean 'duration'?",
        "[session] duration: is missing; add it",
        "[bonds.shaft] flw: unknown key; did you mean 'flow'?",
        "[session] pace = 'asap': 'engine' runs in real time",
        "[connections 2: vehicle.speed -> engine.x] to = 'engine.x': 'engine' has no input 'x'",
        "[subsystems.engine.inputs.speed] start: input engine.speed is not connected",
    ):
        assert any(line.startswith(expected) for line in lines), (expected, lines)


def test_a_value_that_cannot_be_read_is_not_missing_as_well(tmp_path):
    text = SESSION.replace("max_rate = 800.0, safe = 0.0", 'max_rate = "choose", safe = "low"')
    path = tmp_path / "session.toml"
    path.write_text(text, encoding="utf-8")
    assert [str(problem) for problem in check_file(path) if problem.level == "error"] == [
        "[subsystems.engine.inputs.speed] max_rate = 'choose': is still to be chosen; replace it "
        "by a number",
        "[subsystems.engine.inputs.speed] safe = 'low': expected number, got string; correct the "
        "value",
    ]


def test_a_subsystem_that_cannot_be_read_does_not_spoil_the_rest(tmp_path):
    text = SESSION.replace('adapter = "model"', "adapter = 3").replace("torque", "torqe", 1)
    path = tmp_path / "session.toml"
    path.write_text(text, encoding="utf-8")
    lines = [str(problem) for problem in check_file(path)]
    assert lines[0].startswith("[subsystems.vehicle] adapter = 3: is not a name; choose one of")
    assert any("'engine' has no output 'torqe'" in line for line in lines)
    assert not any("no subsystem" in line for line in lines)


MODEL = """
from hilrt import Port, Sample, Solver

class Mass(Solver):
    inputs = (Port("force", "N"),)
    outputs = (Port("velocity", "m/s"),)
    def initialize(self, t0, u0): ...
    def advance(self, t, h, u): ...
"""


def test_with_real_models(tmp_path, monkeypatch, own_modules):
    pytest.importorskip("hilrt_adapters.inprocess")
    monkeypatch.undo()
    (tmp_path / "check_masses.py").write_text(MODEL)
    path = tmp_path / "session.toml"
    path.write_text(
        """
        [session]
        name = "masses"
        duration = 1.0
        pace = "asap"
        [master]
        step = 0.001
        [subsystems.one]
        adapter = "inprocess"
        model = "check_masses:Mass"
        [subsystems.two]
        adapter = "inprocess"
        model = "check_masses:Mas"
        [[connections]]
        from = "one.velocity"
        to = "one.force"
        """
    )
    lines = [str(problem) for problem in check_file(path) if problem.level == "error"]
    assert len(lines) == 2
    assert "[subsystems.two]" in lines[0]
    assert "'Mas'" in lines[0]
    assert "'m/s' does not convert to 'N'" in lines[1]
