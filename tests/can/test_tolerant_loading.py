"""DBC files that are not whole: what can be read, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from cantools.database.can import Database

from hilrt.can.database import find_signal, load_database
from hilrt.can.tolerant_loading import MAX_LEFT_OUT, load_tolerantly
from hilrt.errors import ConfigError

GOOD = """VERSION ""
BU_: Bench Gateway
BO_ 256 Fast: 8 Bench
 SG_ Speed : 0|16@1+ (0.1,0) [0|0] "rad/s" Gateway
 SG_ Torque : 16|16@1- (0.1,0) [0|0] "N*m" Gateway
BO_ 512 Slow: 8 Bench
 SG_ Temp : 0|8@1+ (1,-40) [0|0] "degC" Gateway
BA_DEF_ BO_ "GenMsgCycleTime" INT 0 10000;
BA_DEF_DEF_ "GenMsgCycleTime" 0;
BA_ "GenMsgCycleTime" BO_ 512 100;
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "other.dbc"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("0|16@1+ (0.1,0)", "0|16@1+ (0.1,0", "line 3: message Fast: Invalid syntax"),
        ("16|16@1-", "16|0@1-", "line 3: message Fast: The signal Torque length 0"),
        ("BA_DEF_ BO", 'VAL_ 512 Nobody 0 "x" ;\nBA_DEF_ BO', "line 8: VAL_ 512 Nobody"),
        ("BA_DEF_ BO", 'BA_ "Nowhere" BO_ 256 1;\nBA_DEF_ BO', 'line 8: BA_ "Nowhere" BO_ 256'),
    ],
)
def test_what_can_be_read_is_loaded_and_the_rest_is_named(
    old: str, new: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = load_database(written(tmp_path, GOOD.replace(old, new)), "t")
    ref = find_signal(database, "Slow.Temp", "t")
    assert (ref.unit, ref.message.cycle_time) == ("degC", 100)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"other.dbc is read without {told}")
    if "message Fast" in told:
        with pytest.raises(ConfigError, match="no message 'Fast'; there is Slow"):
            find_signal(database, "Fast.Speed", "t")


def test_statements_that_lack_their_semicolon_are_closed_and_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unclosed = """CM_ "Engine; with a
BO_ 12 in its comment"
BO_ 768 Other: 8 Bench
 SG_ Gear : 0|8@1+ (1,0) [0|0] "" Gateway
CM_ SG_ 768 Gear "the \\"gear\\""
VAL_ 768 Gear 0 "neutral" 1 "first"
VAL_ 512 Temp 255 "not available" ;
"""
    text = GOOD.replace("BA_DEF_ BO_", unclosed + "BA_DEF_ BO_").replace("512 100;", "512 100")
    database = load_database(written(tmp_path, text), "t")
    gear = find_signal(database, "Other.Gear", "t")
    assert gear.signal.choices == {0: "neutral", 1: "first"}
    assert gear.signal.comment == 'the "gear"'
    assert find_signal(database, "Slow.Temp", "t").message.cycle_time == 100
    assert find_signal(database, "Slow.Temp", "t").signal.choices == {255: "not available"}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("other.dbc: the closing ';' is missing in line 8: CM_ ")
    assert line.endswith(", and in 3 more")


def test_a_comment_with_several_lines_that_begin_with_keywords_is_one_statement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comment = """CM_ BO_ 512 "Sent by
BU_: Bench, in place of
BO_ 12 of the \\"old\\" bench, and
BO_ 13 as well";
"""
    text = GOOD.replace("BA_DEF_ BO_", comment + "BA_DEF_ BO_").replace("16|16@1-", "16|0@1-")
    (message,) = load_database(written(tmp_path, text), "t").messages
    assert message.comment.splitlines()[-1] == "BO_ 13 as well"
    (line,) = capsys.readouterr().err.splitlines()
    assert "line 3: message Fast" in line


def test_strings_without_their_end_do_not_hide_the_statement_between(tmp_path: Path) -> None:
    broken = 'CM_ BO_ 256 "fast;\nSIG_VALTYPE_ 256 Speed : 1;\nCM_ BO_ 512 "slow;\n'
    text = GOOD.replace("BA_DEF_ BO_", broken + "BA_DEF_ BO_")
    ref = find_signal(load_database(written(tmp_path, text), "t"), "Fast.Speed", "t")
    assert ref.signal.is_float


@pytest.mark.parametrize(
    "text",
    [
        GOOD + "SIG_VALTYPE_ 256 Speed : nonsense;\n",  # what kind of number is it?
        GOOD + 'BA_ "Nowhere" BO_ 256 1;\n' * (MAX_LEFT_OUT + 1),
        GOOD.replace("BO_ ", "BO "),
    ],
)
def test_files_with_too_little_sense_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"other\.dbc is not a CAN database"):
        load_database(written(tmp_path, text), "t")


def test_a_message_with_a_bad_identifier_is_named_and_the_others_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD + "".join(
        f'BO_ {number} {name}: 8 Bench\n SG_ S : 0|8@1+ (1,0) [0|0] "" Gateway\n'
        f'CM_ BO_ {number} "about {name}";\n'
        for name, number in (("Wide", 2304), ("Wider", 4294967296), ("Below", -1))
    )
    names = [message.name for message in load_database(written(tmp_path, text), "t").messages]
    assert names == ["Fast", "Slow"]
    told = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == [
        "message Wide has the identifier 0x900, which does not fit into 11 bits",
        "message Wider has the identifier 4294967296, which does not fit into 32 bits",
        "message Below has the identifier -1, which does not fit into 32 bits",
    ]


def test_statements_about_messages_that_are_not_there_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A database that was cut down keeps the tables of values of messages that went."""
    text = GOOD + 'VAL_ 999 Gone 0 "off" ;\n' * (MAX_LEFT_OUT + 1)
    assert len(load_database(written(tmp_path, text), "t").messages) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "21 statements about messages that it does not contain; the first is line 11" in line


def test_a_large_file_is_refused_without_being_read_many_times() -> None:
    """Some bad statements among thousands once took as many readings of all that is before them."""
    lines = [
        f'BO_ {i + 1} M{i}: 8 Bench\n SG_ S : 0|8@{7 if i % 90 == 1 else 1}+ (1,0) [0|0] "" Bench\n'
        for i in range(2000)
    ]
    text = 'VERSION ""\nBU_: Bench\n' + "".join(lines)
    read = 0

    def load(part: str) -> Database:
        nonlocal read
        read += len(part)
        if "@7" in part:
            raise ValueError("bad")
        return Database()

    assert load_tolerantly(text, load) is None
    assert read < 2 * len(text)


def test_factors_and_limits_without_their_leading_zero_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD.replace('(1,-40) [0|0] "degC"', '(.25,-.5) [-.5|63.25] "degC"')
    ref = find_signal(load_database(written(tmp_path, text), "t"), "Slow.Temp", "t")
    signal = ref.message.get_signal_by_name("Temp")
    assert (signal.scale, signal.offset, signal.minimum, signal.maximum) == (
        0.25,
        -0.5,
        -0.5,
        63.25,
    )
    assert not capsys.readouterr().err
