"""``hilrt sequence FILE.py:CLASS``: the process in which a test sequence runs.

It is a solver's process that also sends the sequence's reports to the master, before the outputs of
the step, and reports the current line if a step does not return.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Final

from hilrt.config.from_toml import parse_params
from hilrt.hosting.load_solver import load_sequence
from hilrt.hosting.solver_process import run_process
from hilrt.peers.peer import Peer
from hilrt.peers.wire import Event, PromptAnswer
from hilrt.sequences.bench import STEP, SequenceBench, Setting
from hilrt.solver import Solver

#: Report of a sequence about a step that takes long.
HANGS: Final = "has not waited for a communication point for"


def main(
    target: str,
    connect: str,
    name: str,
    params: Mapping[str, str],
    setting: Setting,
    patience: float | None = None,
) -> int:
    """Host a sequence until the session ends.

    Parameters
    ----------
    target : str
        ``"FILE.py:Class"``, relative to the current folder.
    connect, name : str
        The master's address, and the subsystem's name in the session file.
    params : mapping of str
        Keyword arguments of the class, as written on the command line.
    setting : Setting
    patience : float, optional
        Time after which the line of a step that does not return is reported, s.

    Returns
    -------
    int
        Exit status, as for a solver's process.
    """
    made = []

    def make() -> Solver:
        made.append(load_sequence(target, parse_params(params), setting))
        return made[0]

    def connected(peer: Peer) -> None:
        stepper = made[0]
        sender = EventSender(peer, stepper.bench)
        stepper.report_to(sender.send)

        def answer(message: PromptAnswer) -> None:
            stepper.answer(message.number, message.answer, message.who)

        peer.on_answer = answer
        if patience and threading.current_thread() is threading.main_thread():
            stepper.on_step = HangAlarm(sender, stepper.bench, patience)

    return run_process(make, connect, name, connected)


class EventSender:
    """Sender of events to the master without delay."""

    def __init__(self, peer: Peer, bench: SequenceBench) -> None:
        self._peer, self._bench = peer, bench
        self.is_sending = False

    def send(self, cause: str, text: str) -> bool:
        """Send an event; return whether it could be sent."""
        self.is_sending = True
        try:
            return self._peer.send(Event(level="info", cause=cause, text=text))
        finally:
            self.is_sending = False


class HangAlarm:
    """Report of the sequence's current line if a step takes longer than `patience` [s].

    A timer's signal interrupts the thread that does not return; the handler receives its frame.
    """

    def __init__(self, sender: EventSender, bench: SequenceBench, patience: float) -> None:
        self._sender, self._bench, self._patience = sender, bench, patience
        signal.signal(signal.SIGALRM, self._ring)

    def __call__(self, busy: bool) -> None:
        """Start or stop watching."""
        signal.setitimer(signal.ITIMER_REAL, self._patience if busy else 0.0)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if frame is None or self._sender.is_sending:
            return
        where = self._bench.where.of(frame)
        text = f"{where}: {HANGS} {self._patience:g} s; its last step was {self._bench.step_text}"
        self._sender.send(STEP, text)
