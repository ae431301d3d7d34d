"""The tool that puts the generated codec beside cantools."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.qualification import codec_against_cantools

ROOT = Path(__file__).parents[2]
UNMARKED = """VERSION ""
BU_: A
BO_ 256 Pages: 2 A
 SG_ Page : 0|8@1+ (1,0) [0|0] "" A
 SG_ Oil m1 : 8|8@1+ (1,0) [0|0] "" A

SG_MUL_VAL_ 256 Oil Page 1-1;
"""
BEYOND = """VERSION ""
BU_: A
BO_ 256 Wide: 1 A
 SG_ Far : 60|8@1+ (0,0) [0|0] "" A
 SG_ Near : 0|8@1+ (1,0) [0|0] "" A
"""
LARGE = """VERSION ""
BU_: A
BO_ 256 Count: 8 A
 SG_ Count : 0|64@1+ (3,1e18) [0|0] "" A
"""


def test_the_benches_databases_are_coded_as_by_cantools(tmp_path: Path) -> None:
    shutil.copy(ROOT / "bench_configs" / "engine_bench.dbc", tmp_path)
    for name, text in (("unmarked", UNMARKED), ("beyond", BEYOND), ("large", LARGE)):
        (tmp_path / f"{name}.dbc").write_text(text)
    compared = codec_against_cantools.Comparison(frames=4)
    for path in sorted(tmp_path.iterdir()):
        compared.file(path)
    lines = list(compared.lines())
    assert compared.not_meant == 0, lines
    beyond, unmarked = sorted(line for line in lines if "differences" in line)
    assert "signal beyond the message (meant)" in beyond
    assert "multiplexer not marked (meant)" in unmarked
    assert any("numbers that no float64 is" in line for line in lines)
