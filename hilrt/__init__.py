"""Soft real-time hardware-in-the-loop co-simulation for test benches.

The most common names are available here. They are imported on first use, so that a solver process
does not load modules that only the master needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hilrt.version import VERSION

if TYPE_CHECKING:
    from hilrt.config.session_builder import SessionBuilder
    from hilrt.config.session_file import load_session
    from hilrt.hosting.group import Group
    from hilrt.record.reader import Log, load_log
    from hilrt.sequences.sequence import Sequence
    from hilrt.session.live_session import AsyncLiveSession, LiveSession
    from hilrt.session.result import Result, RunResult
    from hilrt.session.run import RunOptions
    from hilrt.session.session import run_session
    from hilrt.session.simulate import simulate
    from hilrt.solver import InputPolynomial, Parameter, Port, Sample, Solver
    from hilrt.studies.sweep import SweepOptions, SweepResult, sweep
    from hilrt.studies.sweep_data import load_sweep

__all__ = [
    "AsyncLiveSession",
    "Group",
    "InputPolynomial",
    "LiveSession",
    "Log",
    "Parameter",
    "Port",
    "Result",
    "RunOptions",
    "RunResult",
    "Sample",
    "Sequence",
    "SessionBuilder",
    "Solver",
    "SweepOptions",
    "SweepResult",
    "load_log",
    "load_session",
    "load_sweep",
    "run_session",
    "simulate",
    "sweep",
]
__version__ = VERSION

_LAZY = {
    **dict.fromkeys(("InputPolynomial", "Parameter", "Port", "Sample", "Solver"), "hilrt.solver"),
    **dict.fromkeys(("AsyncLiveSession", "LiveSession"), "hilrt.session.live_session"),
    **dict.fromkeys(("Log", "load_log"), "hilrt.record.reader"),
    **dict.fromkeys(("Result", "RunResult"), "hilrt.session.result"),
    **dict.fromkeys(("SweepOptions", "SweepResult", "sweep"), "hilrt.studies.sweep"),
    "Group": "hilrt.hosting.group",
    "RunOptions": "hilrt.session.run",
    "Sequence": "hilrt.sequences.sequence",
    "SessionBuilder": "hilrt.config.session_builder",
    "load_session": "hilrt.config.session_file",
    "load_sweep": "hilrt.studies.sweep_data",
    "run_session": "hilrt.session.session",
    "simulate": "hilrt.session.simulate",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'hilrt' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
