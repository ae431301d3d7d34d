"""A session whose report cannot be made still has its closing table, and says so."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hilrt.cli.main import app

SESSION = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"


def test_a_defect_of_the_report_costs_no_closing_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Path) -> Path:
        raise ZeroDivisionError("no bits on the bus")

    monkeypatch.setattr("hilrt.analyze.report.write_report", broken)
    arguments = ["run", str(SESSION), "--duration", "0.01", "--out", str(tmp_path)]
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 5
    assert "no report: ZeroDivisionError: no bits on the bus; hilrt report" in ended.output
    assert "files in" in ended.output
