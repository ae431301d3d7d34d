"""Starts browsers on the processors of a session with an emulated bench, which must continue.

    python -m tools.qualification.browser_starts [--starts 20] [--set KEY=VALUE …]

`hilrt new` writes the session, with the default timeouts of an emulated bench. While it runs, a
headless Chromium repeatedly starts, loads the session's page until it is drawn, and ends. No
processor is reserved. The test fails if the session ends before the last start, or in a fault. The
longest pauses of the gateway, as reported by itself, are also printed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hilrt
from tools.watched_session import READ_TOKEN, browser, free_port, until

DATABASE = Path(__file__).parents[2] / "docs" / "examples" / "drive.dbc"
#: Time limit for the start and for the end of the session, s.
START_S, END_S = 900.0, 60.0
#: Time between the end of a browser and the next start, s.
REST_S = 1.0
HILRT = [sys.executable, "-m", "hilrt"]


def main(argv: list[str] | None = None) -> int:
    """Run the session and the browsers; 1 if the session did not continue."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        return _survives(Path(folder), options.starts, options.set)


def _survives(folder: Path, starts: int, overrides: list[str]) -> int:
    path, out, host = folder / "rig.toml", folder / "runs", f"127.0.0.1:{free_port()}"
    new = [*HILRT, "new", str(path), "--database", str(DATABASE)]
    subprocess.run(new, check=True, stdout=subprocess.DEVNULL)
    given = [f'monitor.page="{host}"', f"subsystems.bench.bus.port={free_port()}", *overrides]
    words = [word for item in given for word in ("--set", item)]
    command = [*HILRT, "run", str(path), "--out", str(out), "--duration", "36000", "--web", *words]
    said, environment = folder / "said.txt", {**os.environ, "HILRT_READ_TOKEN": READ_TOKEN}
    with said.open("wb") as errors:
        session = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, env=environment
        )
    took: list[float] = []
    try:
        until(
            lambda: session.poll() is not None or list(out.glob("*/session.mcap")),
            "session",
            START_S,
        )
        while len(took) < starts and session.poll() is None:
            begun = time.monotonic()
            with browser(folder / f"browser{len(took)}", f"http://{host}/?token={READ_TOKEN}"):
                took.append(time.monotonic() - begun)
            time.sleep(REST_S)
        ended_early = session.poll() is not None
        session.send_signal(signal.SIGINT)
        session.wait(END_S)
    finally:
        session.kill()
    (summary,) = (json.loads(file.read_text()) for file in out.glob("*/summary.json"))
    log = hilrt.load_log(next(out.glob("*/session.mcap")))
    pauses = [event.value or 0.0 for event in log.events if event.cause == "gateway_absent"]
    late = sum(peer["late"] for peer in summary["peers"].values())
    print(
        f"{len(took)} starts on {len(os.sched_getaffinity(0))} processors within "
        f"{summary['time_s']:.0f} s, {max(took, default=0.0):.1f} s the longest; "
        f"the state is {summary['state']}"
    )
    print(
        f"the gateway was without a processor {len(pauses)} times, at most "
        f"{max(pauses, default=0.0):.0f} ms; {late} samples were late"
    )
    if ended_early or summary["state"] == "FAULT":
        print(f"the session ended by itself:\n{said.read_text('utf-8')}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
