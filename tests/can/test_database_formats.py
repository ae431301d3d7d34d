"""Databases in other formats than DBC, and signals that cannot be coded."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.read_bench import read_bench
from hilrt.can.codec import codec
from hilrt.can.database import find_signal, load_database
from hilrt.can.frame import Frame
from hilrt.can.read_database import check_bit_counts, check_signal_counts, identifier_faults
from hilrt.can.receiver import Receiver
from hilrt.config.from_toml import build
from hilrt.config.units import conversion
from hilrt.errors import ConfigError
from tests.can.test_tolerant_loading import GOOD, written

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data"
#: Databases that say the same, and what each calls the demanded speed (short names of ARXML are
#: unique within their package).
FORMATS = [("kcd", "Speed"), ("sym", "Speed"), ("arxml", "SpeedDemand")]
TABLE: dict[str, Any] = {
    "adapter": "can",
    "bus": {"interface": "virtual", "channel": "drive"},
    "enable": {"request": "Demand.Enable", "state": "Status.Enabled"},
    "outputs": {
        "torque": "Status.Torque",
        "speed": "Status.Speed",
        "temperature": "Status.Temperature",
    },
    "inputs": {
        "speed_demand": {
            "realised": "speed",
            "min": 0.0,
            "max": 3000.0,
            "max_rate": 1000.0,
            "safe": 0.0,
        }
    },
}


@pytest.mark.parametrize(("suffix", "demand"), FORMATS)
def test_ports_of_every_format(suffix: str, demand: str) -> None:
    table = copy.deepcopy(TABLE)
    table["database"] = f"drive.{suffix}"
    table["inputs"]["speed_demand"]["signal"] = f"Demand.{demand}"
    problems: list[str] = []
    options = build(BenchOptions, table, "subsystems.motor", problems)
    assert options is not None, problems
    bench = read_bench("motor", options, DATA)
    assert [(p.name, p.unit) for p in bench.ports.outputs] == [
        ("torque", "N*m"),
        ("speed", "rpm"),
        ("temperature", "degC"),
    ]
    assert bench.ports.inputs[0].unit == "rpm"
    assert conversion("rpm", "rad/s")[0] == pytest.approx(0.10472, rel=1e-4)
    with pytest.raises(ConfigError, match="dimensions differ"):
        conversion("N*m", "V")
    # −1.5 N m, 600 rpm, 21.5 °C (big-endian), enabled
    payload = bytes.fromhex("6aff b004 0267 01 00")
    rx = Receiver(bench.outputs, bench.state, "Alive", 0.02)
    assert rx.receive([Frame(0x200, payload)])
    assert rx.y == pytest.approx([-1.5, 600.0, 21.5])
    assert rx.enabled
    assert codec(bench.inputs["speed_demand"].message, [demand]).encode([600.0])[:2] == b"\xb0\x04"


@pytest.mark.parametrize("suffix", ["kcd", "sym", "arxml"])
def test_broken_files_of_every_format_are_named(suffix: str, tmp_path: Path) -> None:
    whole = (DATA / f"drive.{suffix}").read_text(encoding="utf-8")
    (tmp_path / f"cut.{suffix}").write_text(whole[: len(whole) // 2].replace("[", "[["))
    with pytest.raises(ConfigError, match=rf"t: .*cut\.{suffix} is not a CAN database: ."):
        load_database(tmp_path / f"cut.{suffix}", "t")


# ---- signals that cannot be coded --------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("16|16@1-", "56|16@1-", "extends beyond the message's 8 bytes"),
        ("16|16@1-", "56|16@0-", "extends beyond the message's 8 bytes"),
        ("16|16@1- (0.1", "16|16@1- (0", "signal Torque of its message has the scale 0"),
        ("BO_ 512 Slow", "BO_ 512 Fast", "has several messages Fast"),
        ("BO_ 512 Slow", "BO_ 256 Slow", "Fast and Slow have the same identifier 0x100"),
    ],
)
def test_signals_that_cannot_be_coded_are_named_when_they_are_used(
    old: str, new: str, text: str, tmp_path: Path
) -> None:
    changed = GOOD.replace(old, new).replace("BA_ ", "//BA_ ") if "BO_" in old else GOOD
    database = load_database(written(tmp_path, changed.replace(old, new)), "t")
    name = "Fast.Temp" if "several" in text else "Fast.Torque"
    with pytest.raises(ConfigError, match=rf"t = '{name}': .*{text}; correct the database"):
        find_signal(database, name, "t")


def test_overlapping_signals_are_read_each_for_itself(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("16|16@1-", "8|16@1-"))
    database = load_database(path, "t")
    message = find_signal(database, "Fast.Torque", "t").message
    values = codec(message, ["Speed", "Torque"]).decode(bytes([0, 1, 2, 0, 0, 0, 0, 0]))
    assert values == pytest.approx((25.6, 51.3))


@pytest.mark.parametrize(
    ("suffix", "text", "fault"),
    [
        ("kcd", '<Message id="0x900" name="Odd">', "0x900, which does not fit into 11 bits"),
        ("kcd", '<Message id="zz" name="Odd">', "'zz', which is not a number"),
        ("sym", "{SEND}\n\n[Odd]\nID=900h\nLen=8\n", "0x900, which does not fit into 11 bits"),
        ("sym", "{SEND}\n\n[Odd]\nType=Extended\nID=zzh\n", "'zz', which is not a number"),
        ("dbc", "BO_ 0x100 Odd: 8 Bench\n", "'0x100', which is not a number"),
    ],
)
def test_a_bad_identifier_is_named_with_its_message(
    suffix: str, text: str, fault: str, tmp_path: Path
) -> None:
    path = tmp_path / f"odd.{suffix}"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_database(path, "t")
    assert caught.value.problems == [
        f"t: {path}: message Odd has the identifier {fault}; correct it in the database"
    ]


def test_identifiers_of_29_bits_are_good_wherever_the_file_says_so(tmp_path: Path) -> None:
    entries = ("[A]\nID=1000h\nType=Extended", "[B]\nType=Extended\nID=2000h", "[C]\nID=00003000h")
    text = "{SEND}\n\n" + "\nLen=8\n\n".join(entries)
    assert identifier_faults(text, ".sym") == []
    assert identifier_faults(text.replace("Extended", "Standard"), ".sym") != []


def test_an_entry_for_half_a_billion_messages_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "odd.sym"
    path.write_text("{SEND}\n\n[Odd]\nType=Extended\nID=00000000h-1FFFFFFFh\n")
    with pytest.raises(ConfigError, match="message Odd stands for 536,870,912 identifiers"):
        load_database(path, "t")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_text_of_a_dbc_file_is_read_in_the_encoding_that_it_has(
    encoding: str, tmp_path: Path
) -> None:
    text = """VERSION ""
BU_: A
BO_ 256 Temps: 2 A
 SG_ Oil : 0|8@1+ (1,-40) [0|0] "°C" A
CM_ SG_ 256 Oil "Öltemperatur, größer als üblich";
"""
    path = tmp_path / "temps.dbc"
    path.write_bytes(text.encode(encoding))
    signal = load_database(path, "t").messages[0].signals[0]
    assert (signal.unit, signal.comment) == ("°C", "Öltemperatur, größer als üblich")
    path.write_bytes(text.replace("8@1", "8@9").encode(encoding) + text.encode(encoding)[25:])
    assert load_database(path, "t").messages[0].signals[0].unit == "°C"  # what is left of it


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16"])
def test_text_of_an_xml_file_is_read_in_the_encoding_that_it_declares(
    encoding: str, tmp_path: Path
) -> None:
    text = f"""<?xml version="1.0" encoding="{encoding}"?>
<NetworkDefinition xmlns="http://kayak.2codeornot2code.org/1.0"><Document/>
<Bus name="Motor"><Message id="0x100" name="Temps" length="8">
<Signal name="Oil" offset="0"><Notes>Öl</Notes><Value unit="°C"/></Signal>
</Message></Bus></NetworkDefinition>
"""
    path = tmp_path / "temps.kcd"
    path.write_bytes(text.encode(encoding))
    signal = load_database(path, "t").messages[0].signals[0]
    assert (signal.unit, signal.comment) == ("°C", "Öl")


@pytest.mark.parametrize("declared", ["utf-16", "U16", "hex", "idna", "of-my-own"])
def test_a_file_whose_declaration_is_wrong_is_read_as_utf_8(declared: str, tmp_path: Path) -> None:
    """Tools of Windows declare UTF-16, and write UTF-8."""
    text = (DATA / "drive.kcd").read_text(encoding="utf-8")
    _, start, rest = text.partition("<NetworkDefinition")
    path = tmp_path / "drive.kcd"
    path.write_text(f'<?xml version="1.0" encoding="{declared}"?>{start}{rest}', encoding="utf-8")
    names = [message.name for message in load_database(DATA / "drive.kcd", "database").messages]
    assert [message.name for message in load_database(path, "database").messages] == names


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("drive.kcd", 'slope="0.5"', 'slope="inf"', "has a scale that is not finite"),
        ("drive.kcd", 'slope="0.5"', f'slope="{"9" * 400}"', "has a scale that is not finite"),
        ("drive.kcd", 'offset="0" length="16"', 'offset="-1" length="16"', "begins at bit -1"),
        ("drive.kcd", "<NetworkDefinition", "<!DOCTYPE x>\n<NetworkDefinition", "document type"),
        ("drive.sym", "/f:0.5", "/f:1e308", "has values that are not finite"),
        ("drive.sym", "ID=200h", f"ID=200h\nLen={'9' * 200_000}", "line 17 has a number of more"),
        ("drive.arxml", "<AUTOSAR", "<!DOCTYPE x>\n<AUTOSAR", "it declares a document type"),
    ],
)
def test_numbers_that_no_value_has_and_document_types_are_refused(
    name: str, before: str, after: str, message: str, tmp_path: Path
) -> None:
    text = (DATA / name).read_text(encoding="utf-8")
    assert before in text
    (tmp_path / name).write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_database(tmp_path / name, "t")


def test_a_scale_that_is_no_number_costs_a_dbc_file_that_message_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.dbc"
    text = GOOD + '\nBO_ 1000 Endless: 8 A\n SG_ X : 0|8@1+ (1e400,0) [0|0] "" A\n'
    path.write_text(text)
    assert "Endless" not in [message.name for message in load_database(path, "t").messages]
    assert "has a scale that is not finite" in capsys.readouterr().err


def test_a_device_is_no_database() -> None:
    with pytest.raises(ConfigError, match="/dev/zero cannot be read: it is a device"):
        load_database(Path("/dev/zero"), "t")


HUGE = "2147483647"


@pytest.mark.parametrize(
    ("suffix", "was"),
    [
        ("dbc", "0|24@"),
        ("dbc", " : 0|"),
        ("dbc", "DynoDemand: 8"),
        ("kcd", 'offset="0"'),
        ("kcd", 'length="16"'),
        ("sym", "0,16"),
        ("sym", "Len=8"),
        ("arxml", "<START-POSITION>16<"),
        ("arxml", "<LENGTH>8<"),
        ("arxml", "<FRAME-LENGTH>8<"),
    ],
)
def test_what_no_bus_carries_is_refused_before_memory_is_taken_for_its_bits(
    suffix: str, was: str, tmp_path: Path
) -> None:
    """cantools takes 4 bytes for each, 8 GB here."""
    where = ROOT / "bench_configs/engine_bench.dbc" if suffix == "dbc" else DATA / f"drive.{suffix}"
    text, path = where.read_text(), tmp_path / f"x.{suffix}"
    path.write_text(text.replace(was, re.sub(r"\d+(?=\D*$)", HUGE, was), 1))
    line = text.count("\n", 0, text.index(was)) + 1
    said = rf"line {line} has a start bit or a length of [\d,]+ bits"
    with pytest.raises(ValueError, match=said):
        check_bit_counts(path.read_text(), suffix)
    if suffix == "dbc":
        load_database(path, "x")  # the rest of it
    else:
        with pytest.raises(ConfigError, match=said):
            load_database(path, "x")


def test_many_signals_that_are_all_within_bounds_are_refused_together() -> None:
    text = "\n".join(f' SG_ S{i} : 500000|8@1+ (1,0) [0|0] "" A' for i in range(200))
    with pytest.raises(ValueError, match="the signals up to line 100 have 50,"):
        check_bit_counts(text, "dbc")


@pytest.mark.parametrize(
    ("suffix", "begin", "signal"),
    [
        ("dbc", "BO_ 256 M: 8 A\n", ' SG_ S m0 : 16|8@1+ (1,0) [0|0] "" B\n'),
        ("kcd", '<Message id="0x1" name="M">\n', '<Signal name="S" offset="1"/>\n'),
    ],
)
def test_more_signals_than_can_be_read_in_seconds_are_refused_at_once(suffix, begin, signal):
    check_signal_counts((begin + 10_000 * signal) * 2, suffix)
    with pytest.raises(ValueError, match="the message at line 4 has more than 10,000 signals"):
        check_signal_counts((begin + 2 * signal) + begin + 10_001 * signal, suffix)
