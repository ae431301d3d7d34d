"""The recorder process of a session: ``python -m hilrt.cli.recorder_process``.

It ends at the master's request, on SIGTERM, or when the connection to the master is lost. It
ignores SIGINT: Ctrl-C reaches the whole process group, and the master handles it. While writing, it
accumulates statistics for the report, which are attached to the log.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

import zmq

from hilrt.analyze.report_accumulator import ReportAccumulator
from hilrt.record.recorder import Recorder, say


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="hilrt recorder", description="Writes a session's log.")
    parser.add_argument("--connect", required=True, help="address of the master's feed")
    parser.add_argument(
        "--tap", default="", help="where the same messages are forwarded, for live views"
    )
    parser.add_argument("--frames", default="", help="where gateways send CAN frames")
    parser.add_argument("--progress", default="", help="where the master receives the progress")
    parser.add_argument(
        "--logs", type=Path, help="folder of the processes' logs, whose size is limited"
    )
    options = parser.parse_args(arguments)
    try:
        recorder = Recorder(
            options.connect,
            tap=options.tap,
            frames=options.frames,
            follow=ReportAccumulator.of,
            progress=options.progress,
            logs=options.logs,
        )
    except zmq.ZMQError as error:
        say(f"--connect {options.connect}: {error}; give the address that the session prints")
        return 2

    def stop(*_: object) -> None:
        recorder.stop = True

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    if hasattr(os, "nice"):
        os.nice(10)
    return recorder.run()


if __name__ == "__main__":
    sys.exit(main())
