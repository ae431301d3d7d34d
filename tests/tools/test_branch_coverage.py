"""The tool that measures branch coverage: sums by room."""

from __future__ import annotations

import pytest

from tools.qualification.branch_coverage import ROOMS, by_room


def test_shares_are_those_of_all_files_of_a_room() -> None:
    def file(lines: int, covered: int, branches: int, taken: int) -> dict[str, object]:
        return {
            "summary": {
                "num_statements": lines,
                "covered_lines": covered,
                "num_branches": branches,
                "covered_branches": taken,
                "percent_covered_display": "0",
            }
        }

    report = {
        "files": {
            "hilrt/peers/a.py": file(90, 90, 0, 0),
            "hilrt/peers/transport/b.py": file(10, 0, 4, 3),
            "hilrt/step/c.py": file(8, 4, 2, 2),
        }
    }
    found = by_room(report)
    assert found["peers"] == pytest.approx((0.9, 0.75))
    assert found["step"] == (0.5, 1.0)
    assert set(found) == set(ROOMS)
