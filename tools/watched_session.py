"""A watched session with many channels, for tools that measure the cost of watching."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hilrt import Port, Sample, Solver
from hilrt.solver import Floats, InputPolynomial

#: Processor of the master.
MASTER = 1
READ_TOKEN = "watched"
#: Time limit for the start of a session, a page or a browser, s.
START_S = 300.0
#: Time limit for the response of a browser on a busy machine, s.
BROWSER_S = 600.0
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-precise-memory-info", "--window-size=1200,900"),
)


class Channels(Solver):
    """Sines of different frequencies, each with a small share of the input with the same index."""

    def __init__(self, n: int = 100) -> None:
        self.inputs = tuple(Port(f"u{i}") for i in range(n))
        self.outputs = tuple(Port(f"y{i}") for i in range(n))
        self._omega = 2.0 * math.pi * np.geomspace(0.1, 20.0, n)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return self._sample(t0, u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return self._sample(t + h, u(t + h))

    def _sample(self, t: float, u: Floats) -> Sample:
        return Sample(np.sin(self._omega * t) + 0.01 * u)


def session_text(channels: int) -> str:
    """Two solver processes with `channels` outputs in total, each connected to an input."""
    half = channels // 2
    lines = [
        '[session]\nname = "watched"\nduration = 60.0',
        "[master]\nstep = 0.001\nconnect_timeout = 60.0",
        f'pacing = {{ spin = "auto", affinity = [{MASTER}], awake = true }}',
    ]
    for name in "ab":
        spawn = f'["hilrt", "solver", "tools.watched_session:Channels", "--param", "n={half}"]'
        late = '{ policy = "extrapolate", max_misses = 1000000 }'
        lines.append(f'[subsystems.{name}]\nadapter = "zeromq"\nspawn = {spawn}\nlate = {late}')
    for source, target in ("ab", "ba"):
        for i in range(half):
            lines.append(f'[[connections]]\nfrom = "{source}.y{i}"\nto = "{target}.u{i}"')
    return "\n".join(lines) + "\n"


def free_port() -> int:
    """A port that is currently not used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(condition: Callable[[], Any], what: str, timeout: float = START_S) -> Any:
    """Wait for a condition and return its value; `SystemExit` after the time limit."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not within {timeout:g} s")
        time.sleep(0.02)
    return found


class Run:
    """``hilrt run`` of the session in a separate folder, with the addresses of its monitors.

    Attributes
    ----------
    page : str
        Address of the web page, if `web`.
    telemetry : str
        Endpoint of the stream, if `web`.
    """

    def __init__(
        self, folder: Path, channels: int, duration: float, web: bool, *overrides: str
    ) -> None:
        folder.mkdir(parents=True)
        self._out = folder / "runs"
        session = folder / "watched.toml"
        session.write_text(session_text(channels), encoding="utf-8")
        command = [sys.executable, "-m", "hilrt", "run", str(session), "--out", str(self._out)]
        command += ["--quiet", "--duration", str(duration)]
        given = list(overrides)
        if web:
            page, stream = f"127.0.0.1:{free_port()}", f"tcp://127.0.0.1:{free_port()}"
            self.page, self.telemetry = f"http://{page}/?token={READ_TOKEN}", stream
            given += [f'monitor.page="{page}"', f'monitor.listen="{stream}"']
            command.append("--web")
        self._errors = folder / "stderr"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, *(word for item in given for word in ("--set", item))],
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={
                    **os.environ,
                    "PYTHONPATH": str(Path(__file__).parents[1]),
                    "HILRT_READ_TOKEN": READ_TOKEN,
                },
            )

    @property
    def folder(self) -> Path:
        """Folder of this run."""
        (folder,) = self._out.iterdir()
        return folder

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for a condition while the session runs."""

        def seen() -> Any:
            found = condition()
            if not found and self.process.poll() is not None:
                sys.exit(f"{what}: the session ended first: {self._errors.read_text()}")
            return found

        return until(seen, what)

    def until_page(self) -> None:
        """Wait until the page responds."""
        self.until(
            lambda: any("page:" in log.read_text() for log in self._out.glob("*/logs/page.log")),
            "page",
        )

    def until_running(self) -> None:
        """Wait for the first tick."""
        self.until(lambda: list(self._out.glob("*/session.mcap")), "first tick")

    def processes(self) -> dict[str, int]:
        """Identifiers of the session's processes by name."""
        words = {
            "hilrt.web": "page",
            "hilrt.monitor.relay": "relay",
            "hilrt.cli.recorder_process": "recorder",
        }
        found = {"master": self.process.pid}
        for pid in children(self.process.pid):
            command = command_of(pid)
            if "solver" in command:
                found[f"solver {command[command.index('--name') + 1]}"] = pid
            for word, name in words.items():
                if word in command:
                    found[name] = pid
        return found

    def wait(self, timeout: float) -> None:
        """Wait for the end of the session; `SystemExit` if it failed."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            sys.exit(f"the session has not ended within {timeout:g} s")
        if status:
            sys.exit(f"the session ended with status {status}: "
                     f"{self._errors.read_text()}")  # fmt: skip

    def close(self) -> None:
        """End the session if it is still running."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30.0)
            except subprocess.TimeoutExpired:
                self.process.kill()


def children(pid: int) -> list[int]:
    """Descendants of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *children(child)]
    return found


def command_of(pid: int) -> list[str]:
    """Command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def rss_mb(pid: int) -> float:
    """Resident memory, MB; NaN if the process has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return math.nan


@contextlib.contextmanager
def browser(folder: Path, address: str, script: str = "") -> Iterator[Any]:
    """Open the page in a headless Chromium; yields a selenium driver when it is drawn.

    `script` runs in every document before its own scripts.
    """
    from selenium import webdriver

    if not (BROWSER and DRIVER):
        sys.exit("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    driver: Any = webdriver.Chrome(service=webdriver.ChromeService(DRIVER), options=options)
    driver.command_executor.client_config.timeout = BROWSER_S
    driver.set_script_timeout(BROWSER_S)
    try:
        if script:
            driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        driver.get(address)
        drawn = "return !!(window.Bokeh && Bokeh.documents.length)"
        until(lambda: driver.execute_script(drawn), "page in the browser")
        yield driver
    finally:
        driver.quit()
