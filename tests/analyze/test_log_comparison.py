import json
import re
from pathlib import Path

import numpy as np
import pytest

from hilrt.analyze.comparison_page import write_comparison
from hilrt.analyze.log_comparison import compare_logs, differences
from hilrt.logs.cut import cut
from hilrt.record.messages import Attachment, Begin, RecordEnd, Signal, Topic
from hilrt.record.recording import Recording

TOPICS = [
    Topic("outputs", [Signal("a.x", "m"), Signal("a.y", "N"), Signal("a.zero", "N")]),
    Topic("timing", [Signal("master:step", "s"), Signal("master:compute", "us")]),
]
FILE = '[master]\nstep = 0.001\n[[bonds]]\nname = "shaft"\ncorrection = { mu = MU }\n'


def log(folder: Path, *, part_at: int | None = None, mu: str = "1.0", batch: int = 64) -> Path:
    n = 2000
    rows = np.column_stack(
        [np.sin(np.arange(n) / 50), np.ones(n), np.zeros(n), np.full(n, 1e-3), np.full(n, 30.0)]
    )
    rows[::7, 1] = np.nan
    if part_at is not None:
        rows[part_at:, 0] += 0.5
    file = FILE.replace("MU", mu).encode()
    attachments = [Attachment("session.toml", "application/toml", file)]
    recording = Recording(Begin(str(folder), "s", 10**18, TOPICS, attachments, {}))
    times = np.arange(n, dtype=np.int64) * 1_000_000
    for i in range(0, n, batch):
        recording.batch(i, times[i : i + batch], rows[i : i + batch])
        recording.flush()
    summary = {"verdict": "good", "steps": n, "bonds": {"shaft": {"residual_energy_j": 3.0}}}
    recording.finish(RecordEnd(json.dumps(summary).encode(), n, 0))
    return recording.path


def test_equal_logs_are_equal_however_they_are_chunked(tmp_path: Path) -> None:
    found = compare_logs(log(tmp_path / "a"), log(tmp_path / "b", batch=37))
    assert found.equal
    assert found.settings == []
    assert all(signal.rows for signal in found.signals)


def test_where_and_how_far_they_part(tmp_path: Path) -> None:
    found = compare_logs(log(tmp_path / "a"), log(tmp_path / "b", part_at=1234, mu="0.5"))
    assert not found.equal
    first = found.signals[0]
    assert (first.name, first.parted) == ("a.x", 1.234)
    assert first.largest == pytest.approx(0.5)
    assert first.rms == pytest.approx(0.5 * np.sqrt((2000 - 1234) / 2000))
    assert [s.equal for s in found.signals[1:]] == [True] * 4
    assert found.settings == [("bonds.shaft.correction.mu", "1.0", "0.5")]
    assert found.as_json()["signals"]["a.x"]["parted_s"] == 1.234


def test_only_common_times_count(tmp_path: Path) -> None:
    whole = log(tmp_path / "a")
    cut(whole, tmp_path / "part.mcap", start_s=0.5, end_s=1.0)
    found = {d.name: d for d in differences(whole, tmp_path / "part.mcap")}
    assert found["a.x"].rows == 501
    assert found["a.x"].equal


def test_page_highlights_and_asks_nobody(tmp_path: Path) -> None:
    target = write_comparison(
        compare_logs(log(tmp_path / "a"), log(tmp_path / "b", part_at=1000, mu="0.5")),
        tmp_path / "c.html",
    )
    page = target.read_text(encoding="utf-8")
    assert "The first to differ is a.x, at 1.000 s" in page
    assert re.search(r'<td class="differs">[^<]*%</td>', page)
    assert "bonds.shaft.correction.mu" in page
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert "a.y" in headings
    assert "a.zero" not in headings  # two lines of zeros
    scripts = re.findall(r"<script[^>]*>.*?</script>", page, flags=re.DOTALL)
    ours = sorted(scripts, key=len)[:-1]  # the longest is the plotting library, inlined
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not any("http" in text for text in (markup, *ours))
    assert json.loads((tmp_path / "c.json").read_text())["equal"] is False
