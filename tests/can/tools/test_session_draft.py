"""A generated session file needs its choices, and nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import cantools
import pytest
from cantools.database.can import Database, Message
from typer.testing import CliRunner

from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.read_bench import read_bench
from hilrt.bench.set_points import RampedSetPoints
from hilrt.can.database import find_signal
from hilrt.can.tools.session_draft import CHOOSE, choices, generate
from hilrt.check.check import check_file
from hilrt.cli.can_commands import can_app
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError
from hilrt.hosting.database_bench import DatabaseBench
from tests.can.container_database import container_arxml

ROOT = Path(__file__).parents[3]
DATABASE = ROOT / "bench_configs" / "engine_bench.dbc"
BUS: dict[str, object] = {"interface": "udp_multicast", "channel": "239.74.163.9"}
#: What a person might choose.
CHOSEN = {
    "source": "7",
    "max_rate": "100.0",
    "timeout": "1.0",
    "method": '"sum"',
    "safe": "0.0",
    "start": "0.0",
}

HEADER = 'VERSION ""\nNS_ :\nBS_:\nBU_: Rig Tester PLC\n'
COMMAND = """BO_ 256 Cmd: 8 Tester
 SG_ Speed : 0|16@1+ (0.1,0) [0|6000] "1/min" Rig
"""
FAST = """BO_ 512 Fast: 8 Rig
 SG_ Torque : 0|16@1- (0.1,0) [0|0] "Nm" Tester
"""
PLC = """BO_ 768 Plc: 8 PLC
 SG_ Door : 0|1@1+ (1,0) [0|1] "" Tester
"""


def cycle_times(**times: int) -> str:
    head = 'BA_DEF_ BO_ "GenMsgCycleTime" INT 0 10000;\nBA_DEF_DEF_ "GenMsgCycleTime" 0;\n'
    ids = {"cmd": 256, "fast": 512, "plc": 768, "event": 513}
    return head + "".join(f'BA_ "GenMsgCycleTime" BO_ {ids[n]} {ms};\n' for n, ms in times.items())


def frame_formats(numbers: dict[int, int]) -> str:
    """Formats of messages by their identifiers: 3 is a J1939 parameter group, 14 CAN FD."""
    known = {0: "StandardCAN", 3: "J1939PG", 14: "StandardCAN_FD"}
    names = ",".join(f'"{known.get(number, "reserved")}"' for number in range(15))
    return (
        f'BA_DEF_ BO_ "VFrameFormat" ENUM {names};\nBA_DEF_DEF_ "VFrameFormat" "StandardCAN";\n'
        + "".join(f'BA_ "VFrameFormat" BO_ {i} {number};\n' for i, number in numbers.items())
    )


def errors(path: Path) -> list[str]:
    return [str(problem) for problem in check_file(path, []) if problem.level == "error"]


def fill(text: str) -> str:
    """The file with its choices made, and nothing else changed."""
    return re.sub(r'(\w+) = "choose"', lambda found: f"{found[1]} = {CHOSEN[found[1]]}", text)


def bench_of(folder: Path, content: str, name: str = "rig.dbc", **options: Any) -> Any:
    """Text and bench table of a database's session file, which must be sound once filled in."""
    database = folder / name
    database.write_text(content, encoding="utf-8" if name.endswith("kcd") else "cp1252")
    text = generate(database, options.pop("node", None), BUS, folder, **options)
    path = folder / "session.toml"
    path.write_text(text, encoding="utf-8")
    said = errors(path)
    assert len(said) == choices(text)  # one line for each that is left
    assert all(" = 'choose': is still to be chosen; replace it by " in line for line in said), said
    path.write_text(fill(text), encoding="utf-8")
    assert errors(path) == []
    return text, tomllib.loads(text)["subsystems"]["bench"]


def test_choices_are_named_and_suffice(tmp_path: Path) -> None:
    path = tmp_path / "session.toml"
    text = generate(DATABASE, None, BUS, tmp_path)
    path.write_text(text)
    assert choices(text) == text.count(f"= {CHOOSE}") == 11
    assert errors(path) == [
        f"[subsystems.bench.inputs.{port}] {key} = 'choose': is still to be chosen; replace it by "
        "a number"
        for port in ("speed", "mode", "torque", "pedal")
        for key in ("max_rate", "safe", "start")
        if (port, key) != ("mode", "max_rate")  # an enumeration
    ]
    path.write_text(fill(text))
    assert errors(path) == []


@pytest.mark.parametrize(("times", "step"), [({}, 0.1), ({"fast": 20}, 0.02)])
def test_the_step_is_as_long_as_the_emulated_bench_sends(
    times: dict[str, int], step: float, tmp_path: Path
) -> None:
    database = tmp_path / "rig.dbc"
    database.write_text(HEADER + COMMAND + FAST + (cycle_times(**times) if times else ""))
    text = generate(database, None, BUS, tmp_path, emulator="database")
    path = tmp_path / "session.toml"
    path.write_text(text)
    assert tomllib.loads(text)["master"]["step"] == step
    said = [str(line) for line in check_file(path, [])]
    assert not [line for line in said if "late" in line or "error" in line.partition("[")[0]]
    (traffic,) = [line for line in said if "frames per s" in line]
    assert f"{1 / step:,.0f} received" in traffic
    table = load_session(path).tables.subsystems["bench"]
    assert isinstance(table, BenchOptions)
    bench = DatabaseBench(read_bench("bench", table, tmp_path), {})
    assert bench.sends == {"Fast": round(1e3 * step)}


GEAR = (
    COMMAND
    + """ SG_ Gear : 16|4@1+ (1,0) [0|0] "" Rig
 SG_ Pedal : 24|8@1+ (0.4,0) [0|100] "%" Rig
 SG_ Flow : 32|8@1+ (1,0) [0|255] "" Rig
 SG_ Way : 40|2@1- (2,0) [-2|2] "" Rig
"""
)
NAMED = """VAL_ 256 Gear 2 "DRIVE" 1 "REVERSE" 0 "PARK" 5 "SPORT" ;
VAL_ 256 Pedal 254 "ERROR" 255 "NOT AVAILABLE" ;
VAL_ 256 Flow 254 "ERROR" 255 "NOT AVAILABLE" ;
VAL_ 256 Way -1 "BACK" 0 "NONE" 1 "FORTH" ;
"""


def test_enumerations_jump_among_the_values_of_their_table(tmp_path: Path) -> None:
    """Gear and Way are enumerations; Pedal and Flow have names for faults alone."""
    (tmp_path / "rig.dbc").write_text(HEADER + GEAR + FAST + NAMED)
    text = generate(tmp_path / "rig.dbc", None, BUS, tmp_path, emulator="database")
    path = tmp_path / "session.toml"
    path.write_text(text)
    assert errors(path) == []
    inputs = tomllib.loads(text)["subsystems"]["bench"]["inputs"]
    limits = {name: (one["min"], one["max"], one.get("max_rate")) for name, one in inputs.items()}
    assert limits["gear"] == (0.0, 5.0, None)
    assert limits["way"] == (-2.0, 2.0, None)
    assert [limits[name][2] for name in ("pedal", "flow")] == [100.0, 260.0]

    table = load_session(path).tables.subsystems["bench"]
    assert isinstance(table, BenchOptions)
    points = RampedSetPoints(read_bench("bench", table, tmp_path).limits, 0.001)
    gear, way = (list(inputs).index(name) for name in ("gear", "way"))
    for demand, sent in ((1.4, 1.0), (3.4, 2.0), (3.6, 5.0), (9.0, 5.0), (0.0, 0.0)):
        u = list(points.limits.safe)
        u[gear] = u[way] = demand
        assert points.demand(u) == [i for i in (gear, way) if demand > points.limits.maximum[i]]
        points.move(0.001, follows=True)
        assert points.sent[gear] == sent
        assert points.sent[way] == (2.0 if demand > 1.0 else 0.0)

    path.write_text(
        text.replace("safe = 0.0  # no unit: target", "safe = 3.0  # no unit: target", 1)
    )
    (said,) = errors(path)
    assert "safe = 3.0: is not in the value table of signal Cmd.Gear: 0, 1, 2, 5" in said
    path.write_text(text.replace("enumerated = true", "enumerated = true\nmax_rate = 1.0", 1))
    (said,) = errors(path)
    assert "max_rate = 1.0: an enumeration jumps; leave it out, or enumerated" in said


def test_a_float_without_a_range_gets_one_to_narrow(tmp_path: Path) -> None:
    speed = 'BO_ 256 Cmd: 8 Tester\n SG_ Speed : 0|32@1- (1,0) [0|0] "1/min" Rig\n'
    _, bench = bench_of(tmp_path, HEADER + speed + FAST + "SIG_VALTYPE_ 256 Speed : 1;\n")
    limits = bench["inputs"]["speed"]
    assert (limits["min"], limits["max"]) == (-1e6, 1e6)


def test_a_rehearsal_moves_and_may_be_operated(tmp_path: Path) -> None:
    (tmp_path / "rig.dbc").write_text(HEADER + GEAR + FAST + NAMED)
    tables = tomllib.loads(generate(tmp_path / "rig.dbc", None, BUS, tmp_path, emulator="database"))
    (stimulus,) = tables["stimuli"]
    assert stimulus["input"] == "bench.speed"
    assert stimulus["segments"] == [
        {"shape": "ramp", "to": 600.0, "rate": 3000.0},
        {"shape": "hold", "duration": 2.0},
    ]
    assert tables["monitor"]["adjust"]["inputs.bench.gear"] == {"min": 0.0, "max": 5.0}
    assert {"safe", "stop", "adjust"} < set(tables["monitor"]["control"])
    real = tomllib.loads(generate(tmp_path / "rig.dbc", None, BUS, tmp_path))
    assert not {"stimuli", "monitor"} & set(real)


# ---- who is who --------------------------------------------------------------------------------


def test_messages_of_third_nodes_are_candidates(tmp_path: Path) -> None:
    content = HEADER + COMMAND + FAST + PLC
    text, bench = bench_of(tmp_path, content)
    assert list(bench["outputs"].values()) == ["Fast.Torque"]
    assert "hilrt replaces Tester (--node)" in text
    assert "The bench is Rig (--bench); other nodes: PLC." in text
    assert '# outputs.door = "Plc.Door"' in text
    assert "of PLC, not of the bench" in text
    _, bench = bench_of(tmp_path, content, bench=["Rig", "PLC"])
    assert list(bench["outputs"].values()) == ["Fast.Torque", "Plc.Door"]


def test_bench_that_nobody_names(tmp_path: Path) -> None:
    content = HEADER + COMMAND.replace(" Rig\n", " Vector__XXX\n") + FAST + PLC
    with pytest.raises(ConfigError, match=r"--bench: .* one --bench each; there is Rig, PLC"):
        bench_of(tmp_path, content)


@pytest.mark.parametrize("name", ["drive.arxml", "truck_j1939.dbc"])
def test_database_without_senders(name: str, tmp_path: Path) -> None:
    folders = (ROOT / "tests" / "data", ROOT.parent / "shared" / "data")
    database = next((f / name for f in folders if (f / name).exists()), None)
    if database is None:
        pytest.skip("the recordings are not there")
    text = generate(database, None, BUS, tmp_path)
    assert "only listens: --send MESSAGE names a message that it sends" in text
    path = tmp_path / "session.toml"
    path.write_text(fill(text))
    assert errors(path) == []


def test_messages_to_send_without_senders(tmp_path: Path) -> None:
    database = ROOT / "tests" / "data" / "drive.arxml"
    text = generate(database, None, BUS, tmp_path, send=["Demand"])
    bench = tomllib.loads(text)["subsystems"]["bench"]
    assert bench["inputs"]["speed_demand"]["signal"] == "Demand.SpeedDemand"
    assert bench["enable"] == {"request": "Demand.Enable", "state": "Status.Enabled"}
    assert {ref.split(".")[0] for ref in bench["outputs"].values()} == {"Status"}


def test_all_messages_of_one_node(tmp_path: Path) -> None:
    content = (HEADER + COMMAND + FAST).replace("8 Tester", "8 Rig")
    with pytest.raises(ConfigError, match=r"none measured; name"):
        bench_of(tmp_path, content, node="Rig")
    text, bench = bench_of(tmp_path, content, send=["Cmd"])
    assert list(bench["outputs"].values()) == ["Fast.Torque"]
    assert list(bench["inputs"]) == ["speed"]
    text, _ = bench_of(tmp_path, HEADER + COMMAND + COMMAND.replace("256 Cmd", "257 Other") + FAST,
                       node="Tester", send=["Cmd"])  # fmt: skip
    assert "Tester also sends these; choose with --send: Other" in text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"node": "Tster"}, r"--node Tster: .* did you mean 'Tester'"),
        ({"bench": ["Rug"]}, r"--bench Rug: .* did you mean 'Rig'"),
        ({"send": ["Cmt"]}, r"--send Cmt: .* did you mean 'Cmd'"),
        ({"node": "Rig", "bench": ["Rig"]}, r"--bench Rig: hilrt replaces it"),
    ],
)
def test_names_that_are_not_there(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        bench_of(tmp_path, HEADER + COMMAND + FAST, **options)


def test_nobody_is_called_like_a_gateway(tmp_path: Path) -> None:
    content = (HEADER + COMMAND + FAST).replace("Tester", "Box")
    with pytest.raises(ConfigError, match=r"--node: .* Box, Rig; name the one that"):
        bench_of(tmp_path, content)


# ---- messages ----------------------------------------------------------------------------------


def test_message_without_a_cycle_time_is_a_candidate(tmp_path: Path) -> None:
    event = FAST.replace("512 Fast", "513 Event").replace("Torque", "Fault")
    text, bench = bench_of(tmp_path, HEADER + COMMAND + FAST + event + cycle_times(fast=10))
    assert list(bench["outputs"].values()) == ["Fast.Torque"]
    assert bench["bench_timeout"] == 0.05
    assert bench["master_timeout"] == 0.1
    assert '# messages.Event.timeout = "choose"' in text
    assert '# outputs.fault = "Event.Fault"' in text
    assert "without a cycle time, so it may never arrive" in text


def test_timeouts_are_chosen_where_no_cycle_time_is_known(tmp_path: Path) -> None:
    text, bench = bench_of(tmp_path, HEADER + COMMAND + FAST)
    assert bench["messages"]["Fast"]["timeout"] == "choose"
    assert choices(text) == 4


def test_can_fd_opens_the_bus_for_it(tmp_path: Path) -> None:
    content = HEADER + COMMAND + FAST.replace("Fast: 8", "Fast: 64") + frame_formats({512: 14})
    _, bench = bench_of(tmp_path, content)
    assert bench["outputs"] == {"torque": "Fast.Torque"}
    assert bench["bus"]["fd"] is True
    assert "fd" not in bench_of(tmp_path, HEADER + COMMAND + FAST)[1]["bus"]


def test_message_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    other = FAST.replace("512 Fast: 8", "514 Long: 16") + "BO_ 515 Empty: 8 Rig\n\n"
    other += FAST.replace("512 Fast: 8", "516 Endless: 100")
    other += FAST.replace("512 Fast: 8", "2566844672 Group: 16")
    text, bench = bench_of(
        tmp_path, HEADER + COMMAND + FAST + other + frame_formats({516: 14, 2566844672: 3})
    )
    assert list(bench["outputs"].values()) == ["Fast.Torque", "Group.Torque"]
    assert "# Long (0x202): it is longer than a frame of 8 bytes" in text
    assert "# Empty (0x203): it has no signals" in text
    assert "# Endless (0x204): it is longer than a frame of CAN FD, 64 bytes" in text


def test_messages_of_a_container_are_measured_each_for_itself(tmp_path: Path) -> None:
    text = generate(container_arxml(tmp_path), None, BUS, tmp_path)
    (tmp_path / "session.toml").write_text(text.replace(CHOOSE, "1.0"))
    (bench,) = tomllib.loads(text)["subsystems"].values()
    assert bench["outputs"] == {
        "torque": "Fast.Torque",
        "temp": "Slow.Temp",
        "enabled": "Slow.Enabled",
    }
    assert bench["bus"]["fd"] is True
    assert list(bench["messages"]) == ["Fast", "Slow"]
    assert "# Fast in Box (0x66)" in text
    problems = check_file(tmp_path / "session.toml")
    assert [str(problem) for problem in problems if problem.level == "error"] == []


def test_a_container_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = cantools.database.load_string(HEADER + COMMAND + FAST, "dbc")
    inner = [Message(0, name, 8, [], header_id=n) for n, name in enumerate(("Inner", "Other"), 1)]
    box = Message(0x300, "Box", 64, [], inner, senders=["Tester"], is_fd=True)
    whole = Database([*base.messages, box])
    monkeypatch.setattr("hilrt.can.tools.session_draft.load_database", lambda *_: whole)
    text = generate(tmp_path / "rig.arxml", "Tester", BUS, tmp_path)
    assert (
        "# Box (0x300) is not sent: it contains other messages (Inner, Other), which can only be"
        in text
    )
    with pytest.raises(
        ConfigError, match="Box contains other messages; choose one of Inner, Other"
    ):
        find_signal(whole, "Box.Torque", "outputs.torque")


def test_messages_that_cannot_be_told_apart(tmp_path: Path) -> None:
    twins = FAST.replace("512 Fast", "600 One") + FAST.replace("512 Fast", "600 Two")
    text, bench = bench_of(tmp_path, HEADER + COMMAND + FAST + twins)
    assert list(bench["outputs"].values()) == ["Fast.Torque"]
    assert "messages One and Two have the same identifier 0x258" in text


# ---- signals -----------------------------------------------------------------------------------


def test_a_message_that_no_frame_tells_from_another_needs_its_sender(tmp_path: Path) -> None:
    """0x18EF0001 and 0x0CEF0001 differ in their priority alone."""
    fast, plc = 0x98EF0001, 0x8CEF0001
    content = HEADER + COMMAND + FAST.replace("512", str(fast)) + PLC.replace("768", str(plc))
    content += frame_formats({fast: 3, plc: 3})
    (tmp_path / "rig.dbc").write_text(content)
    text = generate(tmp_path / "rig.dbc", "Tester", BUS, tmp_path, bench=["Rig"])
    assert "messages.Fast.source = " in text
    assert "nothing else distinguishes it from Plc" in text
    path = tmp_path / "session.toml"
    path.write_text(text)
    assert any("message Fast (0x18EF0001) or Plc (0xCEF0001)" in line for line in errors(path))
    path.write_text(fill(text))
    assert errors(path) == []


def test_no_signal_is_dropped(tmp_path: Path) -> None:
    """Counters, checksums, multiplexed and broken signals are there, with the reason."""
    fast = FAST + (
        ' SG_ EncoderCounter : 16|16@1+ (1,0) [0|0] "" Tester\n'
        ' SG_ FastCounter : 32|4@1+ (1,0) [0|0] "" Tester\n'
        ' SG_ FastCrc : 40|8@1+ (1,0) [0|0] "" Tester\n'
        ' SG_ Alive : 48|1@1+ (1,0) [0|0] "" Tester\n'
        ' SG_ Page M : 49|4@1+ (1,0) [0|0] "" Tester\n'
        ' SG_ Oil m3 : 53|4@1+ (1,0) [0|0] "" Tester\n'
        ' SG_ Beyond : 60|8@1+ (1,0) [0|0] "" Tester\n'
    )
    text, bench = bench_of(tmp_path, HEADER + COMMAND + fast)
    assert list(bench["outputs"]) == ["torque", "encoder_counter", "page", "oil"]
    assert bench["messages"]["Fast"]["counter"] == ""  # one bit cannot count
    for line in (
        '# outputs.fast_counter = "Fast.FastCounter"  # a counter by its name',
        '# messages.Fast.counter = "FastCounter"',
        '# outputs.fast_crc = "Fast.FastCrc"  # a checksum by its name',
        '# messages.Fast.protection = { method = "choose", signal = "FastCrc" }',
        '# outputs.alive = "Fast.Alive"',
        '# outputs.beyond = "Fast.Beyond"  # the signal extends beyond',
    ):
        assert line in text, line


def test_multiplexed_measurements(tmp_path: Path) -> None:
    """Every form becomes a port; only a counter that is not in every frame cannot be one."""
    pages = FAST.replace("512 Fast", "513 Pages").replace("Torque", "Pressure") + (
        ' SG_ Page M : 16|4@1+ (1,0) [0|0] "" Tester\n'
        ' SG_ Oil m3 : 24|8@1+ (1,0) [0|0] "degC" Tester\n'
        ' SG_ Sub m4M : 24|4@1+ (1,0) [0|0] "" Tester\n'
        ' SG_ Cell m2 : 28|4@1+ (1,0) [0|0] "V" Tester\n'
        ' SG_ Alive m5 : 24|8@1+ (1,0) [0|0] "" Tester\n'
        ' SG_ PageCounter m6 : 24|8@1+ (1,0) [0|0] "" Tester\n'
    )
    below = "SG_MUL_VAL_ 513 Oil Page 3-3;\nSG_MUL_VAL_ 513 Sub Page 4-4;\n"
    below += "SG_MUL_VAL_ 513 Cell Sub 0-9;\nSG_MUL_VAL_ 513 Alive Page 5-5;\n"
    below += "SG_MUL_VAL_ 513 PageCounter Page 6-6;\n"
    content = HEADER + COMMAND + FAST + pages + below + cycle_times(fast=10, event=50)
    text, bench = bench_of(tmp_path, content)
    assert list(bench["outputs"]) == ["torque", "pressure", "page", "oil", "sub", "cell"]
    assert bench["messages"] == {"Pages": {"counter": ""}}
    assert choices(text) == 3  # of the set-point
    for line in (
        "# multiplexed: the session does not begin before each of these has arrived",
        'outputs.pressure = "Pages.Pressure"  # Nm\n',
        'outputs.oil = "Pages.Oil"  # degC; only in frames with Page = 3',
        'outputs.cell = "Pages.Cell"  # V; only in frames with Sub = 0, 1, 2, 3, 4, 5, 6, 7, …',
        'messages.Pages.counter = ""  # Alive is not in every frame: no counter',
        '# outputs.alive = "Pages.Alive"  # only in frames with Page = 5; a counter by its name',
        '# outputs.page_counter = "Pages.PageCounter"  # only in frames with Page = 6; a counter',
    ):
        assert line in text, line
    assert "# messages.Pages.counter" not in text
    text, bench = bench_of(tmp_path, HEADER + COMMAND + FAST + pages + below + cycle_times(fast=10))
    assert list(bench["outputs"]) == ["torque"]  # without a cycle time none of it may come
    assert '# outputs.oil = "Pages.Oil"' in text


SYM = """FormatVersion=6.0 // of the editor
Title="rig"

{RECEIVE}

[Pages]
ID=200h
Len=8
Mux=One 0,8 01h
Var=Level unsigned 8,8
Var=Oil unsigned 16,8

[Pages]
Len=8
Mux=Two 0,8 02h
Var=Level unsigned 8,8
Var=Water unsigned 16,8
"""


def test_several_signals_of_one_name(tmp_path: Path) -> None:
    text, bench = bench_of(tmp_path, SYM, "rig.sym")
    assert list(bench["outputs"]) == ["one", "oil", "water"]
    for form in (1, 2):
        assert f'"Pages.Level"  # only in frames with One = {form}; several signals of' in text


def test_counters_and_checksums_that_are_sent(tmp_path: Path) -> None:
    command = COMMAND + (
        ' SG_ CmdCounter : 16|4@1+ (1,0) [0|15] "" Rig\n'
        ' SG_ CmdCrc : 24|8@1+ (1,0) [0|0] "" Rig\n'
        ' SG_ OtherCrc : 33|16@1+ (1,0) [0|0] "" Rig\n'
    )
    text, bench = bench_of(tmp_path, HEADER + command + FAST)
    assert list(bench["inputs"]) == ["speed"]
    assert bench["messages"]["Cmd"] == {
        "counter": "CmdCounter",
        "protection": {"method": "choose", "signal": "CmdCrc"},
    }
    assert "# OtherCrc keeps its start value: a checksum by its name" in text


def test_one_enable_is_the_handshake_and_others_are_inputs(tmp_path: Path) -> None:
    command = COMMAND + (
        ' SG_ DriveEnable : 16|1@1+ (1,0) [0|1] "" Rig\n'
        ' SG_ CoolEnable : 17|1@1+ (1,0) [0|1] "" Rig\n'
    )
    fast = FAST + (
        ' SG_ CoolEnabled : 16|1@1+ (1,0) [0|1] "" Tester\n'
        ' SG_ DriveEnabled : 17|1@1+ (1,0) [0|1] "" Tester\n'
    )
    _, bench = bench_of(tmp_path, HEADER + command + fast)
    assert bench["enable"] == {"request": "Cmd.DriveEnable", "state": "Fast.DriveEnabled"}
    assert list(bench["inputs"]) == ["speed", "cool_enable"]
    assert list(bench["outputs"]) == ["torque", "cool_enabled", "drive_enabled"]


KCD = """<NetworkDefinition xmlns="http://kayak.2codeornot2code.org/1.0">
  <Document name="rig" version="1" author="somebody"/>
  <Node id="1" name="Prüf stand"/><Node id="2" name="Gateway"/>
  <Bus name="rig">
    <Message id="0x200" name="Größe 1" length="8">
      <Producer><NodeRef id="1"/></Producer>
      <Signal name="Speed" offset="0" length="8"/><Signal name="speed" offset="8" length="8"/>
      <Signal name="SPEED" offset="16" length="8"/><Signal name="Öl druck" offset="24" length="8"/>
      <Signal name="°" offset="32" length="8"/>
    </Message>
    <Message id="0x100" name="Soll wert" length="8">
      <Producer><NodeRef id="2"/></Producer>
      <Signal name="Soll.Drehzahl" offset="0" length="8"/>
      <Signal name="Zähl counter" offset="8" length="4"/>
    </Message>
    <Message id="0x201" name="Dotted.Name" length="8">
      <Producer><NodeRef id="1"/></Producer>
      <Signal name="Level" offset="0" length="8"/>
    </Message>
  </Bus>
</NetworkDefinition>"""


def test_names_become_ports_of_their_own(tmp_path: Path) -> None:
    text, bench = bench_of(tmp_path, KCD, "rig.kcd")
    outputs = bench["outputs"]
    assert len(outputs) == len(set(outputs.values())) == 5
    assert all(re.fullmatch(r"[a-z0-9_]+", port) for port in outputs)
    assert outputs["ol_druck"] == "Größe 1.Öl druck"
    assert bench["inputs"]["soll_drehzahl"]["signal"] == "Soll wert.Soll.Drehzahl"
    assert bench["messages"]["Soll wert"]["counter"] == "Zähl counter"
    assert '# outputs.level = "Dotted.Name.Level"' in text  # "Message.Signal" cannot name it


# ---- the command -------------------------------------------------------------------------------


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    words = ["generate", str(tmp_path / "none" / "rig.toml"), "--database", str(DATABASE)]
    result = CliRunner().invoke(can_app, words)
    assert isinstance(result.exception, ConfigError)
    assert "No such file or directory; create its folder first" in str(result.exception)


def test_options_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "rig.dbc").write_text(HEADER + COMMAND + FAST + PLC)
    path = tmp_path / "rig.toml"
    words = ["generate", str(path), "--database", str(tmp_path / "rig.dbc")]
    words += ["--bench", "Rig", "--bench", "PLC", "--send", "Cmd"]
    result = CliRunner().invoke(can_app, words, catch_exceptions=False)
    assert "5 choices to make" in result.output
    assert "The bench is Rig, PLC (--bench)" in path.read_text(encoding="utf-8")


def test_empty_database(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rig\.dbc has no messages; give the one of the bench"):
        bench_of(tmp_path, HEADER)
