"""Settings of all tests."""

import sys

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")


@pytest.fixture
def own_modules(monkeypatch):
    """What the test imports is forgotten after it."""
    from hilrt.hosting import import_module as room

    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(room, "_folders", [])
    monkeypatch.setattr(room, "_loaded", {})
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        del sys.modules[name]
