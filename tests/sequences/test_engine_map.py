"""The engine map measures what the engine's equations say, and stands in the report as a map."""

import re
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

import hilrt
from hilrt.analyze.measured_points import (
    contour_levels,
    draw_maps,
    measured_points,
    point_table,
    results_of,
)
from hilrt.expect.outcome import ResultEntry
from hilrt.models.engine_bench import drag_torque, indicated_torque
from hilrt.wording import result_rows

SESSION = Path(__file__).with_name("engine_map.toml")


@pytest.fixture(scope="module")
def result():
    return hilrt.simulate(SESSION)


def test_the_measured_torques_are_those_of_the_models_equations(result):
    assert (result.fault, result.exit_status) == (None, 0)
    (points,) = measured_points(result.summary["results"])
    assert points.axes == (("speed", "rad/s"), ("pedal", "%"))
    assert points.at.tolist() == [[120.0, 20.0], [120.0, 100.0], [440.0, 20.0], [440.0, 100.0]]
    expected = [indicated_torque(*at) - drag_torque(at[0]) for at in points.at.tolist()]
    assert points.values == pytest.approx(expected, rel=0.02)
    intervals = [e.text for e in result.log.events if e.cause == "recording_begin"]
    assert intervals[0] == "120 rad/s, 20 %"


def test_the_map_is_drawn_on_the_grid_of_its_points(result):
    told = [e.text for e in result.log.events if e.cause == "measure"]
    assert [msgspec.json.decode(text)["quantity"] for text in told] == ["torque"] * 4
    results = msgspec.convert(result.summary["results"], list[ResultEntry])
    assert results[3].name == "torque at speed 440 rad/s, pedal 100 %"
    assert result_rows(result.summary)[0][-1].endswith("N*m at 4 points of speed and pedal")
    (points,) = measured_points(result.summary["results"])
    first, second, values = points.grid()
    assert (first.tolist(), second.tolist()) == ([120.0, 440.0], [20.0, 100.0])
    assert values[0].tolist() == points.values[[0, 2]].tolist()
    (drawing,) = draw_maps([points])
    assert drawing.heading == "Map of torque, N*m"
    assert [type(r).__name__ for r in drawing.plot.renderers] == [
        "ContourRenderer",
        "GlyphRenderer",
    ]


def entry(at: dict[str, float], value: float | None, result: str = "passed") -> dict[str, object]:
    axes = [{"name": name, "value": x, "unit": "-"} for name, x in at.items()]
    return {"quantity": "q", "unit": "bar", "at": axes, "value": value, "t": 1.0, "result": result}


def test_points_that_are_no_grid_are_a_table_with_points_and_no_contours():
    entries = [entry({"x": x, "y": x * x}, x) for x in (1.0, 2.0, 3.0)]
    entries.append(entry({"x": 1.0, "y": 1.0}, None, "inconclusive"))
    (points,) = measured_points(entries)
    assert points.grid() is None
    (drawing,) = draw_maps([points])
    assert [type(r).__name__ for r in drawing.plot.renderers] == ["GlyphRenderer"]
    page = point_table(points)
    assert page.count("<tr>") == 5
    assert "<th>x, -</th>" in page.replace(' class=""', "")
    assert page.count('class="differs"') == 1
    assert measured_points([{"name": "rise time", "result": "passed", "at": []}]) == []
    (line,) = measured_points([entry({"x": x}, x) for x in (1.0, 2.0)])
    assert draw_maps([line]) == []


def test_a_grid_with_a_point_without_a_value_is_drawn_and_equal_values_are_not(tmp_path):
    from hilrt.analyze.report_page import write_pictures

    at = [{"x": x, "y": y} for x in (1.0, 2.0, 3.0) for y in (1.0, 2.0, 3.0)]
    (points,) = measured_points(entry(one, i or None) for i, one in enumerate(at))
    assert np.isnan(points.grid()[2][0, 0])
    assert write_pictures(draw_maps([points]), tmp_path)
    for most in (0.0, 1e-7):
        (points,) = measured_points(entry(one, 1e9 + most * one["x"]) for one in at)
        assert draw_maps([points]) == []


def test_without_a_summary_the_points_are_those_of_the_events(result):
    stream = SimpleNamespace(events=[*result.log.events])
    stream.events.append(SimpleNamespace(cause="measure", text="of another tool", source="x"))
    killed = SimpleNamespace(summary={"verdict": "good"}, summarised=False, stream=stream)
    (points,) = measured_points(results_of(killed))
    (whole,) = measured_points(result.summary["results"])
    assert points.values.tolist() == whole.values.tolist()
    assert points.times == pytest.approx(whole.times)


def test_contours_are_at_round_numbers_around_all_values():
    assert contour_levels(np.array([36.7, np.nan, 200.0])).tolist() == [*np.arange(20, 201, 20)]
    assert contour_levels(np.array([-0.3, 0.7])) == pytest.approx(np.arange(-0.3, 0.75, 0.1))


def test_pictures_of_maps_are_drawn_too(result, tmp_path):
    from hilrt.analyze.report_page import write_pictures

    (picture,) = write_pictures(draw_maps(measured_points(result.summary["results"])), tmp_path)
    assert re.fullmatch(r"01_map_of_torque_n_m\.png", picture.name)


def test_coordinates_without_a_unit_or_a_number_are_refused_with_what_to_write():
    from hilrt.sequences.bench import SequenceBench, Setting
    from hilrt.solver import Ports

    bench = SequenceBench(Ports((), ()), Setting())
    bench.measure("q", 1.0, at={"x": (1.0, "bar")})
    bench.measure("q", 1.0, at={"x": (2.0, "bar")})
    with pytest.raises(ValueError, match="already"):
        bench.measure("q", 1.0, at={"x": (2.0, "bar")})
    for wrong in (1.0, (float("nan"), "bar"), ("a", "bar"), (1.0, 2.0)):
        with pytest.raises(ValueError, match=r"write \(120.0, 'rad/s'\)"):
            bench.measure("q", 1.0, at={"x": wrong})
