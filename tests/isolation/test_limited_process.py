"""What a process that is started inherits of the environment."""

import os

import pytest

from hilrt.isolation import limited_process
from hilrt.isolation.limited_process import inherited_environment, set_for_this_process


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setattr(limited_process, "_set_here", set())
    monkeypatch.setenv("HILRT_TOKEN", "secret")
    monkeypatch.setenv("OF_THE_USER", "2")
    monkeypatch.setenv("OF_THE_PROCESS", "")


def test_what_the_user_has_set_is_inherited_but_for_what_is_meant_for_this_process():
    inherited = inherited_environment()
    assert inherited["OF_THE_USER"] == "2"
    assert "HILRT_TOKEN" not in inherited


def test_what_this_process_has_set_for_itself_is_not_inherited():
    set_for_this_process("OF_THE_PROCESS", "1")
    assert os.environ["OF_THE_PROCESS"] == "1"
    assert "OF_THE_PROCESS" not in inherited_environment()
