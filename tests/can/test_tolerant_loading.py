"""DBC files that are not whole: what can be read, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from hilrt.can.database import find_signal, load_database
from hilrt.can.tolerant_loading import MAX_LEFT_OUT
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
