"""Settings of all tests, and how several workers share them (``pytest -n 2 -m "not real_time"``).

Each file stays with one worker. The first one compiles the whole step, for tens of seconds;
meanwhile other workers have files that do not need it. Sessions in real time have the marker
`real_time`: they run afterwards, one after another, with nothing beside them.
"""

import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

# The compiler makes millions of objects that live long: to look through them all the time took a
# tenth of the suite.
gc.set_threshold(100_000, 20, 20)

#: What pages and metrics ask for; the account's own is left alone.
os.environ["HILRT_READ_TOKEN"] = "read-token"

TESTS = Path(__file__).parent
COMPILES = "session/test_load_numerics.py"
#: Rooms whose tests make no step, but for a file near the end of the last one.
WITHOUT_STEPS = ("can", "cli", "peers", "record", "web", "bench", "logs", "config", "monitor")
#: Scenarios that no other session beside them disturbs: as fast as possible, or without a session.
NOT_IN_REAL_TIME = {
    f"test_{name}.py"
    for name in (
        *("bad_input", "broken_fmus", "fmu", "fork_server", "keys"),
        *("recorder", "solver_end", "ssp", "two_mass"),
    )
}
#: With failures in so many files something is wrong with all of them, and each of the others might
#: only wait for its time limit.
GIVE_UP_AFTER = 5


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
    return 1 + len(WITHOUT_STEPS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if in_real_time(item.path):
            item.add_marker(pytest.mark.real_time)
    items.sort(key=place)


class Failures:
    """Says at once what fails in real time, and ends the run where many files fail."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._files: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "real_time" not in report.keywords:
            return
        if report.failed:
            self._files.add(report.nodeid.partition("::")[0])
            why = getattr(report.longrepr, "reprcrash", None) or report.longreprtext
            what = f"{report.nodeid}, {report.when} of {report.duration:.0f} s: {why}"
            self._config.get_terminal_writer().line(f"\n{what}", red=True)
        if report.when == "teardown" and len(self._files) >= GIVE_UP_AFTER:
            many = f"sessions in real time failed in {len(self._files)} files"
            pytest.exit(f"{many}: no more of them is tried", returncode=pytest.ExitCode.INTERRUPTED)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # not in one of several workers
        config.pluginmanager.register(Failures(config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # else files with the fewest tests would come last
    return LoadFileScheduling(config, log)


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
