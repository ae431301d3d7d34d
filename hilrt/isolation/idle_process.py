"""A child process is kept for the next file for a moment: to load its libraries takes a second.

A session that replays an MF4 file has it opened by its check, and again at its start.
"""

from __future__ import annotations

import atexit
import threading

from hilrt.isolation.limited_process import LimitedProcess

#: How long a child without work is kept, s.
KEPT_S = 5.0

_lock = threading.Lock()
_idle: dict[str, LimitedProcess] = {}
_timers: dict[str, threading.Timer] = {}


def take_process(module: str) -> LimitedProcess:
    """A child that runs the module: an idle one, or a new one."""
    process = _pop(module)
    if process is not None and process.idle:
        return process
    if process is not None:
        process.close()
    return LimitedProcess(module)


def give_back(module: str, process: LimitedProcess) -> None:
    """Keep a child for a moment; end it if it has something left to do."""
    if not process.idle:
        process.close()
        return
    with _lock:
        if module not in _idle:
            _idle[module] = process
            timer = _timers[module] = threading.Timer(KEPT_S, _end, (module, process))
            timer.daemon = True
            timer.start()
            return
    process.close()


def _pop(module: str) -> LimitedProcess | None:
    with _lock:
        timer = _timers.pop(module, None)
        if timer is not None:
            timer.cancel()
        return _idle.pop(module, None)


def _end(module: str, process: LimitedProcess) -> None:
    """After `KEPT_S`, unless it was taken meanwhile, and may have been given back."""
    with _lock:
        if (
            _idle.get(module) is not process
            or _timers.get(module) is not threading.current_thread()
        ):
            return
        del _idle[module], _timers[module]
    process.close()


@atexit.register
def _end_all() -> None:
    for module in list(_idle):
        process = _pop(module)
        if process is not None:
            process.close()
