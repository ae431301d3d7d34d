"""Pictures of README.md, from one run: the page of the running session, and the top of its report.

    python -m tools.pictures

Writes `docs/page.png` and `docs/report.png`. Needs chromium, chromedriver and a host that is not
busy: the tool stops if the run is not `good`.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from tools.watched_session import READ_TOKEN, browser, free_port, until

ROOT = Path(__file__).parents[1]
SESSION = ROOT / "bench_configs" / "engine_models.toml"
#: In real time, so that the page shows a session that runs, with a step that most hosts keep.
SETTINGS = ("session.pace=realtime", "session.duration=30.0", "master.step=0.005")
#: Session time of the picture of the page, s.
SHOWN_S = 13.0
WIDTH, HEIGHT = 1200, 905
#: Leaves out the name of the machine.
ANYWHERE = """const facts = document.querySelector(".facts");
facts.textContent = facts.textContent.split(" · ").slice(0, 4).join(" · ");"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = take_page(Path(folder))
        with browser(Path(folder) / "second", (run / "report.html").as_uri()) as driver:
            driver.execute_script(ANYWHERE)
            save(driver, ROOT / "docs" / "report.png")


def take_page(folder: Path) -> Path:
    """Run the session and photograph its page; returns the folder of the run."""
    page = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "hilrt", "run", str(SESSION), "--web", "--quiet"]
    command += ["--out", str(folder / "runs")]
    for setting in (*SETTINGS, f'monitor.page="{page}"'):
        command += ["--set", setting]
    process = subprocess.Popen(command, env={**os.environ, "HILRT_READ_TOKEN": READ_TOKEN})
    logs = (folder / "runs").glob
    until(lambda: any("page:" in log.read_text() for log in logs("*/logs/page.log")), "page")
    with browser(folder / "first", f"http://{page}/?token={READ_TOKEN}") as driver:
        until(lambda: shown_time(driver) >= SHOWN_S, "session time")
        save(driver, ROOT / "docs" / "page.png")
    process.wait()
    (run,) = (folder / "runs").iterdir()
    verdict = json.loads((run / "summary.json").read_text("utf-8"))["verdict"]
    if verdict != "good":
        sys.exit(f"the run was {verdict}; repeat it on a host that is not busy")
    return run


def shown_time(driver: Any) -> float:
    """Session time that the page shows, s."""
    status = "return Bokeh.documents[0].get_model_by_name('state')?.text ?? ''"
    return float(driver.execute_script(status).partition('class="time">')[2].partition("<")[0] or 0)


def save(driver: Any, path: Path) -> None:
    """Save the upper part of a page, with a palette to keep the file small."""
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_script('document.documentElement.style.overflow = "hidden"')
    driver.execute_async_script("setTimeout(arguments[0], 1500)")  # until the plots have their size
    picture = Image.open(io.BytesIO(driver.get_screenshot_as_png()))
    picture.convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main()
