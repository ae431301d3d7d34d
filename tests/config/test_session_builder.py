"""Sessions written in Python against the same session files."""

import numpy as np
import pytest

import hilrt
from hilrt import InputPolynomial, Sample, SessionBuilder, Solver
from hilrt.config.parse_toml import parse_toml
from hilrt.config.session_file import load_session, open_session
from hilrt.errors import ConfigError
from hilrt.solver import Floats
from tests.chain import built, group

QUOTED = 'with "quote"'


def test_it_has_the_tables_of_a_file(tmp_path):
    (tmp_path / "session.toml").write_text(group(6), encoding="utf-8")
    assert built(6).tables == load_session(tmp_path / "session.toml").tables


def test_its_text_is_a_session_file_and_paths_start_in_the_folder(tmp_path):
    builder = hilrt.SessionBuilder("pair", duration=1.0, step=1e-3)
    builder.subsystem("a", "inprocess", model="m:A", params={"k": 2, "names": ["x", QUOTED]})
    builder.add("alarms", {"signal": "a.y", "max": 3.0}).set("reliability", warm_up=0.1)
    session = builder.build(tmp_path)
    assert session.folder == tmp_path.resolve()
    assert parse_toml(builder.text())["alarms"] == [{"signal": "a.y", "max": 3.0}]
    assert session.tables.alarms[0].max == 3.0
    assert session.tables.subsystems["a"].params["names"] == ["x", QUOTED]


def test_what_is_wrong_is_named_with_its_place():
    builder = hilrt.SessionBuilder("pair", duration=1.0, step=1e-3)
    builder.subsystem("a", "inprocess", model="m:A", lat={}).connect("a.y", "b.u", gian=2.0)
    with pytest.raises(ConfigError) as problem:
        builder.build()
    text = str(problem.value)
    assert "[subsystems.a] lat: unknown key" in text
    assert "connections 1: a.y -> b.u" in text
    assert "gian" in text
    with pytest.raises(ConfigError, match="already exists; use"):
        builder.subsystem("a", "inprocess")
    with pytest.raises(ConfigError, match="is not a valid name"):
        builder.group("a.b", "m:A", 3)
    builder.set("session", arm=object())
    with pytest.raises(ConfigError, match="type object"):
        builder.text()


class Still(Solver):
    """Neither takes nor gives anything."""

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.empty(0))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return Sample(np.empty(0))


def test_a_class_stands_for_its_name() -> None:
    builder = SessionBuilder("one", duration=1.0, step=0.1)
    builder.subsystem("a", "inprocess", model=Still)
    assert f'model = "{__name__}:Still"' in builder.text()


def test_what_is_no_class_at_the_top_level_is_refused_with_the_remedy() -> None:
    class Hidden(Still):
        pass

    for model, said in ((Hidden, "top level"), (Still(), "give its class, Still")):
        builder = SessionBuilder("one", duration=1.0, step=0.1)
        builder.subsystem("a", "inprocess", model=model)
        with pytest.raises(ConfigError, match=said):
            builder.text()
    with pytest.raises(ConfigError, match=r"call its build\(\)"):
        open_session(builder)
