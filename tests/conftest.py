"""Settings of all tests, and how several workers share them (``pytest -n 2``).

Each file stays with one worker. The first one compiles the whole step, for tens of seconds;
meanwhile other workers have files that do not need it. Sessions in real time come next, one after
another on one worker, which a second processor leaves undisturbed; then the rest.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

TESTS = Path(__file__).parent
COMPILES = "session/test_load_numerics.py"
#: Rooms whose tests make no step, but for a file near the end of the last one.
WITHOUT_STEPS = ("can", "cli", "peers", "record", "web", "bench", "logs", "config", "monitor")
#: Scenarios that no other session beside them disturbs: as fast as possible, or without a session.
NOT_IN_REAL_TIME = {
    f"test_{name}.py" for name in ("bad_input", "broken_fmus", "fmu", "ssp", "two_mass")
}


def in_real_time(path: Path) -> bool:
    """Whether a file has sessions in real time."""
    return path.parent == TESTS / "scenarios" and path.name not in NOT_IN_REAL_TIME


def place(item: pytest.Item) -> int:
    """Where a test stands in the order of all."""
    path = item.path.relative_to(TESTS)
    if path.as_posix() == COMPILES:
        return 0
    if path.parts[0] in WITHOUT_STEPS:
        return 1 + WITHOUT_STEPS.index(path.parts[0])
    last = 1 + len(WITHOUT_STEPS)
    return last if in_real_time(item.path) else last + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        """Whole files in their order; those with sessions in real time are one piece of work."""

        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return "real time" if in_real_time(TESTS.parent / file) else file

    config.option.loadscopereorder = False  # else files with the fewest tests would come last
    return Scheduling(config, log)


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
