"""Faults and changed parameters are marked in a report's figures of signals, also as pictures."""

from pathlib import Path

import numpy as np
from bokeh.models import Range1d

import hilrt
from hilrt.analyze.figures import Material, draw_lines
from hilrt.analyze.log_analysis import analyse_log
from hilrt.analyze.report import write_page
from hilrt.session.run import RunOptions
from tests.sequences import test_adjusting
from tests.session.test_parameters import SESSION

FAULT = """
[[faults]]
name = "bump"
kind = "offset"
value = 0.5
output = "body.x"
start = 0.2
end = 0.35
[[stimuli]]
name = "softer"
input = "parameters.body.stiffness"
start = 0.6
segments = [{ shape = "hold", value = -50.0, duration = 0.1 }]
[[stimuli]]
name = "shaken"
input = "body.f"
start = 0.4
segments = [{ shape = "hold", value = 0.5, duration = 0.1 }]
"""


def test_each_change_is_a_line_with_its_text(tmp_path):
    source = Path(test_adjusting.__file__).with_name("adjusting.py")
    (tmp_path / source.name).write_text(source.read_text())
    path = tmp_path / "session.toml"
    text = SESSION.partition("[monitor.adjust")[0] + test_adjusting.STIFFENING + FAULT
    path.write_text(text)
    result = hilrt.run_session(path, options=RunOptions(out=tmp_path / "runs"))
    analysis = analyse_log(result.folder)
    material = Material.gather(analysis.stream, analysis.curves)
    plot = draw_lines(material, Range1d(0.0, 1.0), ["body.x"])
    (shown,) = [one for one in plot.legend[0].items if one.label.value == "body.x with faults"]
    used = shown.renderers[0].data_source.data
    away = np.interp(used["t"], *material.curves["body.x"]) - used["y"]
    acts = (np.asarray(used["t"]) > 0.205) & (np.asarray(used["t"]) < 0.345)
    np.testing.assert_allclose(away[acts], -0.5, atol=1e-6)
    (marks,) = [one for one in plot.renderers if type(one.glyph).__name__ == "VSpan"]
    data = marks.data_source.data
    assert [round(t, 9) for t in data["t"]] == [0.2, 0.3, 0.35, 0.6, 0.7]
    assert data["text"][0] == "fault bump (offset) begins at body.x"
    assert data["text"][1].startswith("parameter body.stiffness = 160")
    assert data["text"][3] == "stimulus softer begins at parameters.body.stiffness"
    assert len(set(data["colour"])) == 2
    page = write_page(analysis, tmp_path / "report.html", png=True).read_text("utf-8")
    assert page.count("fault bump (offset) begins at body.x") >= 2  # a figure, and the events
    assert list((tmp_path / "report").glob("*.png"))
