"""Enough file descriptors before a session starts, or a refusal."""

import sys

import pytest

from hilrt.errors import ConfigError
from hilrt.timing import doctor, host
from hilrt.timing.host import OF_A_SESSION, OF_A_SUBSYSTEM, reserve_descriptors

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")


@pytest.fixture
def limit(monkeypatch):
    """Sets the limits, and keeps what is asked for."""
    asked = []

    def make(now, at_most):
        monkeypatch.setattr(host.resource, "getrlimit", lambda which: (now, at_most))
        monkeypatch.setattr(host.resource, "setrlimit", lambda which, limits: asked.append(limits))
        return asked

    monkeypatch.setattr(host, "in_use", lambda: 10)
    return make


NEEDED = 10 + OF_A_SESSION + 3 * OF_A_SUBSYSTEM + 50


def test_too_few_are_refused_with_the_remedy(limit):
    limit(40, 40)
    with pytest.raises(ConfigError, match=rf"may open 40 .* up to {NEEDED}: .*ulimit -n 1024"):
        reserve_descriptors(3, 50)


def test_what_is_permitted_is_asked_for(limit):
    asked = limit(40, NEEDED)
    reserve_descriptors(3, 50)
    assert asked == [(NEEDED, NEEDED)]


def test_enough_stays_as_it_is(limit):
    asked = limit(NEEDED, host.resource.RLIM_INFINITY)
    reserve_descriptors(3, 50)
    assert asked == []


def test_those_of_this_process_are_counted(limit, monkeypatch):
    monkeypatch.undo()
    with open(__file__, "rb"):
        assert host.in_use() > 3


@pytest.mark.parametrize(
    ("limits", "found", "graded"),
    [
        ((1024, 4096), "1024, can be raised to 4096", "good"),
        ((4096, 4096), "4096", "good"),
        ((40, 256), "40, can be raised to 256", "bad"),
    ],
)
def test_doctor_looks_at_them(limit, limits, found, graded):
    limit(*limits)
    line = doctor.descriptor_line()
    assert (line.found, line.grade, bool(line.remedy)) == (found, graded, graded == "bad")
