"""A page in a real browser, with a session that only a test has."""

import asyncio
import threading

import pytest

from tests.scenarios.sessions import until
from tests.web.views import RUNNING, StillViewer


@pytest.fixture
def viewer(unused_tcp_port):
    """Serves a page with forty events."""
    pytest.importorskip("bokeh", reason="the page needs hilrt[web]")
    from hilrt.web.server import make_server
    from hilrt.web.shared_session import SharedSession

    made = StillViewer(RUNNING)
    for number in range(1, 41):
        made.event(number)
    loop, ready = asyncio.new_event_loop(), threading.Event()

    def serve():
        asyncio.set_event_loop(loop)
        server = make_server(SharedSession(made), "127.0.0.1", unused_tcp_port, "token")
        server.start()
        ready.set()
        loop.run_forever()

    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait()
    yield made
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    made.close()


@pytest.fixture
def driver(viewer, unused_tcp_port, tmp_path):
    """A browser that shows it."""
    from tests.browser import DRAWN_S, open_browser

    driver = open_browser(tmp_path, f"http://127.0.0.1:{unused_tcp_port}/?token=token", (1366, 768))
    drawn = "return !!view('figures')?.child_views.length && view('table').grid.getDataLength()"
    until(lambda: driver.execute_script(drawn) == 40, "table and figures", DRAWN_S)
    yield driver
    driver.quit()
