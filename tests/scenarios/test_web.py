"""The web page of a real session in a real browser: what it shows and what it may do."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hilrt
from tests.scenarios.sessions import LINUX, Listener, Run, engine_run, free_port, until

webdriver = pytest.importorskip("selenium.webdriver", reason="drives a browser with selenium")
StaleElementReferenceException = pytest.importorskip(
    "selenium.common.exceptions"
).StaleElementReferenceException
pytest.importorskip("bokeh", reason="the page needs hilrt[web]")

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    LINUX,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver"),
]
TOKEN = "a-token"
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1200,900",
)


class Browser:
    """A page, looked at and operated as a person would."""

    def __init__(self, session: Run, folder: Path, address: str) -> None:
        self.session = session
        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER
        for flag in (*FLAGS, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=webdriver.ChromeService(DRIVER), options=options)
        self.driver.set_script_timeout(60)
        self.driver.get(address)
        until(lambda: self.run("return !!(window.Bokeh && Bokeh.documents.length)"), "page")

    def run(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def text(self, name: str) -> str:
        """What a part of the page shows, as a person reads it."""
        code = "const m = Bokeh.documents[0].get_model_by_name(arguments[0]); "
        code += "return m.text.replace(/<[^>]*>/g, ' ')"
        return str(self.run(code, name))

    def part(self, name: str, selector: str) -> Any:
        code = "const m = Bokeh.documents[0].get_model_by_name(arguments[0]); "
        code += "return Bokeh.index.find_one_by_id(m.id).shadow_el.querySelector(arguments[1])"
        return self.run(code, name, selector)

    def press(self, name: str) -> None:
        def click() -> None:
            self.run("arguments[0].click()", self.part(name, "button"))

        until(lambda: self._try(click), f"button {name}")

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

    def until_shown(self, name: str, *texts: str) -> None:
        """Wait until a part of the page shows one of the texts, as long as the session lives."""
        seen = [""]

        def shown() -> bool:
            seen[0] = self.text(name)
            return any(text in seen[0] for text in texts)

        try:
            self.session.until(shown, f"{texts} in {name!r} of the page")
        except AssertionError as error:
            raise AssertionError(f"{error}; shown at last: {seen[0]!r}") from None

    def curves(self) -> list[dict[str, list[float]]]:
        """What every plot's line is drawn from."""
        code = """
          const found = [];
          for (const plot of Bokeh.documents[0].get_model_by_name("figures").children)
            for (const r of plot.renderers) if (r.glyph.type === "Line") {
              const d = r.data_source.data;
              found.push({name: r.name, t: [...d.t], last: [...d.last].map((v) =>
                Number.isNaN(v) ? null : v)});
            }
          return found"""
        return list(self.run(code))

    def errors(self) -> list[str]:
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]


@contextlib.contextmanager
def watched_run(tmp_path: Path, *overrides: str) -> Iterator[tuple[Run, Browser]]:
    """An engine session with its page in a browser."""
    port = free_port()
    page = f'monitor.page="127.0.0.1:{port}"'
    with (
        Listener() as listener,
        engine_run(tmp_path, listener, page, *overrides, options=["--web"]) as run,
    ):
        address = f"http://127.0.0.1:{port}/"
        until(lambda: "page:" in page_log(run), "page")
        browser = Browser(run, tmp_path / "browser", address)
        try:
            yield run, browser
        finally:
            browser.driver.quit()


def page_log(run: Run) -> str:
    found = list(run.out.glob("*/logs/page.log"))
    return found[0].read_text() if found else ""


def test_arm_watch_and_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HILRT_TOKEN", TOKEN)
    control = 'monitor.control=["arm","safe","stop","mark","acknowledge"]'
    # A busy machine may take long to show the flag: the session has to outlast the frozen solver.
    patience = "subsystems.vehicle.late.max_misses=1000000"
    with watched_run(tmp_path, 'session.arm="manual"', control, patience) as (run, page):
        page.until_shown("lamp", "INITIALIZED")
        page.fill("who", "Ada")
        page.press("arm")
        page.until_shown("answer", "wrong token")
        page.fill("token", TOKEN)
        page.press("arm")
        page.until_shown("answer", "arming the benches")
        run.until_running()
        page.until_shown("state", "RUNNING", "DEGRADED")
        until(lambda: len(page.curves()) == 2 and len(page.curves()[0]["t"]) > 10, "curves")

        solver = run.children()["solver"]
        os.kill(solver, signal.SIGSTOP)
        started = time.monotonic()
        page.until_shown("lamp", "sample late (vehicle)")
        print(f"flag on the page after {1e3 * (time.monotonic() - started):.0f} ms")
        os.kill(solver, signal.SIGCONT)
        page.fill("note", "solver was frozen")
        page.press("mark")
        page.until_shown("answer", "solver was frozen")
        curves = page.curves()
        assert page.errors() == []
        page.press("stop")
        page.press("stop")
        assert run.wait() == 130, run.stderr
    log = hilrt.load_log(run.folder)
    assert_curves_are_the_logs(curves, log)
    told = [(event.cause, event.text) for event in log.events]
    assert ("operator", "Ada asked for arm: arming the benches") in told
    assert ("mark", "Ada: solver was frozen") in told
    assert ("operator", "Ada asked for stop: benches run their safe profile") in told
    assert any("wrong token" in text for cause, text in told if cause == "mark")
    assert "solver was frozen" in (run.folder / "report.html").read_text()


def assert_curves_are_the_logs(curves: list[dict[str, Any]], log: hilrt.Log) -> None:
    """Every point of the page is a value of the log, bit by bit."""
    assert {curve["name"] for curve in curves} == {"engine.torque", "vehicle.engine_speed"}
    for curve in curves:
        times, values = log.time(curve["name"]), log[curve["name"]]
        known = ~np.isnan(values)
        assert len(curve["t"]) > 10
        for t, value in zip(curve["t"], curve["last"], strict=True):
            newest = np.flatnonzero(known & (times <= t + 1e-7))
            assert value is None or value == values[newest[-1]], (curve["name"], t)
