"""Runs of the sessions in ``bench_configs``, with other values for some keys."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError
from hilrt.record.reader import Log, load_log
from hilrt.session.result import RunResult
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session

CONFIGS = Path(__file__).parents[2] / "bench_configs"


def run(session: str, *overrides: str, shadow: bool = False) -> Log:
    """Run a session to its end and return its log.

    Parameters
    ----------
    session : str
        Name of a session file without its suffix.
    overrides : str
        ``key=value``, as for ``hilrt run --set``.
    shadow : bool
        Compute corrections without applying them.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = _run(session, overrides, RunOptions(out=Path(folder), shadow=shadow))
        return load_log(result.folder)


def summarise(session: str, *overrides: str) -> RunResult:
    """Result with its summary, without a log: faster."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(session, overrides, RunOptions(out=Path(folder), record=False))


def _run(session: str, overrides: tuple[str, ...], options: RunOptions) -> RunResult:
    file = load_session(CONFIGS / f"{session}.toml", list(overrides))
    result = run_session(file, options=options)
    if result.fault is not None:
        raise ConfigError(f"{session} with {', '.join(overrides)}: {result.fault}")
    return result
