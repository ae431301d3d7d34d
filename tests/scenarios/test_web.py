"""The web page of a real session in a real browser: what it shows and what it may do."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import hilrt
from tests.browser import DRAWN_S, needs_browser, open_browser
from tests.scenarios.sessions import (
    CONFIGS,
    LINUX,
    REPORT,
    TIMEOUT,
    Listener,
    Run,
    engine_run,
    free_port,
    until,
)

StaleElementReferenceException = pytest.importorskip(
    "selenium.common.exceptions"
).StaleElementReferenceException
pytest.importorskip("bokeh", reason="the page needs hilrt[web]")

pytestmark = [LINUX, needs_browser]
TOKEN = "a-token"
#: How long a solver stands still at most, and then runs, s.
FROZEN_S = 1.5


class Browser:
    """A page, looked at and operated as a person would."""

    def __init__(self, session: Run, folder: Path, address: str) -> None:
        self.session, self.host = session, urlsplit(address).netloc
        self.driver = open_browser(folder, address, (1200, 900))
        until(lambda: self.run("return !!(window.Bokeh && Bokeh.documents.length)"), "page")

    def run(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def text(self, name: str) -> str:
        """What a part of the page shows, as a person reads it."""
        code = "const m = Bokeh.documents[0].get_model_by_name(arguments[0]); "
        code += "const shown = Bokeh.index.find_one_by_id(m.id).markup_el.innerHTML; "
        code += "return shown.replace(/<[^>]*>/g, ' ')"
        return str(self.run(code, name))

    def part(self, name: str, selector: str) -> Any:
        code = "const m = Bokeh.documents[0].get_model_by_name(arguments[0]); "
        code += "return Bokeh.index.find_one_by_id(m.id).shadow_el.querySelector(arguments[1])"
        return self.run(code, name, selector)

    def press(self, name: str) -> None:
        def click() -> None:
            self.run("arguments[0].click()", self.part(name, "button"))

        until(lambda: self._try(click), f"button {name}")

    def ask(self, name: str, answer: str) -> None:
        """Press a button until what it does is answered; stop needs two presses close together."""
        clear = "Bokeh.documents[0].get_model_by_name('answer').text = ''"
        self.run(clear)

        def answered() -> bool:
            for _ in range(2 if name == "stop" else 1):
                self.press(name)
            deadline = time.monotonic() + 20.0
            while time.monotonic() < deadline and not self.session.ended():
                if answer in self.text("answer"):
                    return True
                time.sleep(0.05)
            return self.session.ended()

        until(answered, f"{answer!r} after {name}", DRAWN_S)

    def loaded(self) -> set[str]:
        """Machines that the page has loaded anything from."""
        code = "return performance.getEntriesByType('resource').map((e) => new URL(e.name).host)"
        return set(self.run(code))

    def fill(self, name: str, text: str) -> None:
        def type_text() -> None:
            field = self.part(name, "input")
            self.run("arguments[0].scrollIntoView({block: 'center'})", field)
            field.clear()
            field.send_keys(text + "\t")

        until(lambda: self._try(type_text), f"field {name}")

    @staticmethod
    def _try(act: Any) -> bool:
        """Whether it went well: a part that is drawn anew just then has to be found again."""
        try:
            act()
        except StaleElementReferenceException:
            return False
        return True

    def until_shown(self, name: str, pattern: str) -> None:
        """Wait until a part of the page shows something, as long as the session lives."""
        seen = [""]

        def shown() -> bool:
            seen[0] = self.text(name)
            assert not self.session.ended(), f"the session has ended; {self.session.stderr}"
            return re.search(pattern, seen[0]) is not None

        try:
            until(shown, f"{pattern!r} in {name!r} of the page", DRAWN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; shown at last: {seen[0]!r}") from None

    def keep_texts(self, *names: str) -> None:
        """Let the browser keep what these parts of the page show from now on."""
        code = """
          window.kept = {};
          for (const name of arguments) {
            const part = Bokeh.documents[0].get_model_by_name(name), texts = [];
            const keep = () => texts.push(part.text.replace(/<[^>]*>/g, ' '));
            part.properties.text.change.connect(keep);
            window.kept[name] = texts;
          }"""
        self.run(code, *names)

    def has_shown(self, name: str, pattern: str) -> bool:
        texts = self.run("return window.kept[arguments[0]]", name)
        return any(re.search(pattern, text) for text in texts)

    def curves(self) -> list[dict[str, list[float]]]:
        """What every signal's line is drawn from; the edges of its band have no name."""
        code = """
          const found = [];
          for (const plot of Bokeh.documents[0].get_model_by_name("figures").children)
            for (const r of plot.renderers) if (r.glyph.type === "Line" && r.name) {
              const d = r.data_source.data;
              found.push({name: r.name, t: [...d.t], last: [...d.last].map((v) =>
                Number.isNaN(v) ? null : v)});
            }
          return found"""
        return list(self.run(code))

    def events(self) -> list[str]:
        """What the rows of the events' table say."""
        code = "const m = Bokeh.documents[0].get_model_by_name('events'); "
        code += "return [...m.children[1].source.data.text]"
        return list(self.run(code))

    def errors(self) -> list[str]:
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]


#: A busy machine, with a browser that draws, holds processes up for long: nobody may lose patience.
PATIENCE = (
    "subsystems.vehicle.late.max_misses=1000000",
    "subsystems.engine.late.max_misses=1000000",
    "subsystems.engine.master_timeout=10.0",
    "subsystems.engine.bench_timeout=10.0",
)


@contextlib.contextmanager
def patient_bench(listener: Listener) -> Iterator[None]:
    """An emulated engine bench that waits for its demands for longer than others do."""
    code = "import hilrt.models.bench_sequence as s; s.DEMAND_TIMEOUT_S = 10.0; "
    code += "from hilrt.cli.main import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "emulate",
        "engine",
        "--bus",
        f"{listener.arguments},hop_limit=0",
    ]
    bench = subprocess.Popen([*command, "--database", str(CONFIGS / "engine_bench.dbc")])
    try:
        yield
    finally:
        bench.kill()
        bench.wait(TIMEOUT)


@contextlib.contextmanager
def watched_run(tmp_path: Path, *overrides: str) -> Iterator[tuple[Run, Browser]]:
    """An engine session with its page in a browser."""
    port = free_port()
    page = f'monitor.page="127.0.0.1:{port}"'
    with (
        Listener() as listener,
        patient_bench(listener),
        engine_run(
            tmp_path,
            listener,
            page,
            REPORT,
            *PATIENCE,
            *overrides,
            options=["--web"],
            bench_of_its_own=True,
        ) as run,
    ):
        address = f"http://127.0.0.1:{port}/?token={os.environ['HILRT_READ_TOKEN']}"
        run.until(lambda: "page:" in page_log(run), "page")
        browser = Browser(run, tmp_path / "browser", address)
        try:
            yield run, browser
        finally:
            browser.driver.quit()


def page_log(run: Run) -> str:
    found = list(run.out.glob("*/logs/page.log"))
    return found[0].read_text() if found else ""


#: Demand, value sent and measurement of the bench's inputs, then what is left of the bond.
FIRST_CURVES = [
    *("vehicle.engine_speed", "engine.speed_demand:sent", "engine.speed"),
    *("vehicle.pedal", "engine.pedal:sent", "engine.torque"),
]


def test_arm_watch_and_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HILRT_TOKEN", TOKEN)
    control = 'monitor.control=["arm","safe","stop","mark","acknowledge"]'
    with watched_run(tmp_path, 'session.arm="manual"', control) as (run, page):
        page.until_shown("state", "INITIALIZED")
        page.until_shown("lamp", "NO VERDICT YET")
        assert page.loaded() == {page.host}  # it works without any other network
        page.fill("who", "Ada")
        page.ask("arm", "give the token first")
        page.fill("token", "guess")
        for action in ("arm", "safe", "stop"):
            page.ask(action, "wrong token")
        page.fill("token", TOKEN)
        page.ask("arm", "arming the benches")
        state = page.part("state", "div")
        run.until_running()
        page.until_shown("state", "RUNNING|IMPAIRED")
        assert page.run("return arguments[0].isConnected", state)  # only its content is another one
        until(lambda: any(len(curve["t"]) > 10 for curve in page.curves()), "curves")

        show_a_fault_and_its_cause(run, page)
        page.fill("note", "solver was frozen")
        page.ask("mark", "solver was frozen")
        curves = page.curves()
        page.ask("safe", "safe profile")
        page.until_shown("state", "SAFE")
        assert page.errors() == []
        page.ask("stop", "ending the session")
        assert run.wait() == 130, run.stderr
        said = "return document.getElementById('lost').textContent"
        assert re.fullmatch(r"ended: stopped, \w+ · report", page.run(said))  # which the page keeps
    log = hilrt.load_log(run.folder)
    assert_curves_are_the_logs(curves, log)
    told = [(event.cause, event.text) for event in log.events]
    assert ("operator", "Ada asked for arm: arming the benches") in told
    assert ("mark", "Ada: solver was frozen") in told
    raised = [e.t for e in log.events if e.source == "vehicle" and "late raised:" in e.text]
    (marked,) = (e.t for e in log.events if e.text == "Ada: solver was frozen")
    assert raised[0] < marked  # it was on the page before it was commented
    for action in ("safe", "stop"):
        assert any(f"Ada asked for {action}: " in text for cause, text in told)
    assert any("wrong token" in text for cause, text in told if cause == "wrong_token")
    assert "solver was frozen" in (run.folder / "report.html").read_text()


def show_a_fault_and_its_cause(run: Run, page: Browser) -> None:
    """Freeze the solver: its flag is on the page in words, wherever one may look."""
    said = {
        "lamp": r"now:.*sample late \([^)]*vehicle",
        "graph": r"vehicle\s+zeromq\s+▲ sample late",
        "peers": r"vehicle\s+▲ late.*extrapolate now",
    }
    page.keep_texts(*said)
    solver = run.children()["solver"]

    def shown() -> bool:
        return all(page.has_shown(name, pattern) for name, pattern in said.items())

    def listed() -> bool:
        return shown() and any(row.startswith("sample late: vehicle") for row in page.events())

    def told() -> bool:
        # Again and again: the connection of a solver that stands still for long is closed.
        os.kill(solver, signal.SIGSTOP)
        soon(shown)
        os.kill(solver, signal.SIGCONT)
        return soon(listed)

    run.until(told, "the flag on the page")


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it comes true within the time that a solver stands still."""
    deadline = time.monotonic() + FROZEN_S
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def assert_curves_are_the_logs(curves: list[dict[str, Any]], log: hilrt.Log) -> None:
    """Every point of the page is a value of the log, bit by bit; set-points are plotted first."""
    assert [curve["name"] for curve in curves] == FIRST_CURVES
    for curve in curves:
        times, values = log.time(curve["name"]), log[curve["name"]]
        known = ~np.isnan(values)
        assert len(curve["t"]) > 10
        for t, value in zip(curve["t"], curve["last"], strict=True):
            newest = np.flatnonzero(known & (times <= t + 1e-7))
            assert value is None or value == values[newest[-1]], (curve["name"], t)
