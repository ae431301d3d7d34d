"""Test sequences in pytest: the fixture `bench`, and the marker `hilrt`.

::

    @pytest.mark.hilrt("bench.toml", {"session.pace": "asap"})
    def test_tip_in(bench):
        bench.run(TipIn, rise_time=0.4)

pytest loads this in every run, so nothing but pytest is imported before the fixture is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hilrt.sequences.sequence import Sequence
    from hilrt.session.result import RunResult

MARKER = (
    "hilrt(session, overrides={}): session file of the fixture `bench`, and overrides of its keys"
)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> SequenceRunner:
    """Runner of test sequences in the session that the marker names."""
    marker = request.node.get_closest_marker("hilrt")
    arguments = {} if marker is None else dict(marker.kwargs)
    if marker is not None:
        arguments = {**dict(zip(("session", "overrides"), marker.args, strict=False)), **arguments}
    session = arguments.get("session")
    folder = Path(request.node.path).parent
    path = None if session is None else folder / session
    return SequenceRunner(request.node, tmp_path, path, arguments.get("overrides") or {})


class SequenceRunner:
    """Value of the fixture `bench`.

    Parameters
    ----------
    item : pytest.Item
        The test; its report receives the results.
    folder : Path
        Folder for the runs.
    session : Path or None
        Session file; None: the one named by the sequence.
    overrides : mapping
        Values that replace the file's, by ``"table.key"``.
    """

    def __init__(
        self,
        item: pytest.Item,
        folder: Path,
        session: Path | None,
        overrides: Mapping[str, object],
    ) -> None:
        self._item, self._folder = item, folder
        self._session, self._overrides = session, overrides
        self._runs = 0

    def run(self, sequence: type[Sequence], *, check: bool = True, **params: object) -> RunResult:
        """Run a session with the sequence to its end.

        Parameters
        ----------
        sequence : type
            A subclass of `hilrt.Sequence` that is defined in a file.
        check : bool
            Fail the test unless the session ended normally and every result passed.
        params : dict
            Keyword arguments of the class.
        """
        from hilrt.config.parse_toml import toml_value
        from hilrt.config.session_file import load_session
        from hilrt.session.run import RunOptions, session_of_sequence
        from hilrt.session.session import run_session

        file, session = Path(inspect.getfile(sequence)), self._session
        if session is None and sequence.session is not None:
            session = file.parent / sequence.session
        session, changes = session_of_sequence(file, sequence.__name__, session)
        table = changes[0].partition(".sequence=")[0]
        changes += [f"{table}.params.{key}={toml_value(v, key)}" for key, v in params.items()]
        changes += [f"{key}={toml_value(v, key)}" for key, v in self._overrides.items()]
        self._runs += 1
        options = RunOptions(folder=self._folder / f"run-{self._runs}")
        result = run_session(load_session(session, changes), options=options)
        problems = self._note(result)
        if check and (problems or result.exit_status):
            why = "; ".join(problems or result.warnings) or f"exit status {result.exit_status}"
            pytest.fail(f"{why}\n{_files(result.folder)}", pytrace=False)
        return result

    def _note(self, result: RunResult) -> list[str]:
        """Write results and files to the test's report; return the failures."""
        from hilrt.expect.outcome import outcome_line
        from hilrt.wording import verdict_of

        outcomes = result.outcomes
        lines = [f"{one.result}: {one.name}: {outcome_line(one)}" for one in outcomes]
        problems = [line for line in lines if not line.startswith("passed")]
        problems += [f"fault: {result.fault}"] if result.fault else []
        properties: list[tuple[str, Any]] = self._item.user_properties
        properties.append(("hilrt_folder", str(result.folder)))
        properties.append(("hilrt_verdict", verdict_of(result.summary)))
        properties += [(f"hilrt_{o.result}", line) for o, line in zip(outcomes, lines, strict=True)]
        if problems:
            lines += _report(result)
        text = "\n".join([*lines, *result.warnings, f"files in {result.folder}"])
        self._item.add_report_section("call", "hilrt", text)
        return problems


def _files(folder: Path | None) -> str:
    """Text that lists which files of a run exist: not all are written if it fails early."""
    names = {"log": "session.mcap", "report": "report.html"}
    found = [what for what, name in names.items() if folder and (folder / name).is_file()]
    return f"{' and '.join(found) or 'neither log nor report'}: {folder}"


def _report(result: RunResult) -> list[str]:
    """Write the report of a session that did not pass; return lines with its path or problem."""
    from hilrt.errors import HilrtError

    try:
        from hilrt.analyze.report import write_report

        return [f"report: {write_report(result.folder)}"]
    except ImportError as error:
        return [f"no report: it needs {error.name}; install hilrt[report]"]
    except (HilrtError, OSError) as error:
        return [f"no report: {error}"]
