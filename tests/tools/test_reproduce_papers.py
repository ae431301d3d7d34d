"""The gallery of the papers' figures, as far as it is quick to draw."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_page_of_some_entries_needs_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.papers.reproduce_papers", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--only", "stable-island", "pi-steps"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(": holds (") == 2
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "40 steps, 26.0052 ms on average, 78.1321 ms at most" in page
    assert "<script src=" not in page
    assert '<link rel="stylesheet"' not in page
