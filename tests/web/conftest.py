"""A page in a real browser, with a session that only a test has."""

import asyncio
import threading

import pytest

from tests.scenarios.sessions import until
from tests.web.views import RUNNING, StillViewer

#: Of the browser's window, px.
SIZE = (1366, 768)


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


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One for the tests of a file: its start takes longer than they do."""
    from tests.browser import open_browser

    browser = open_browser(tmp_path_factory.mktemp("browser"), "about:blank", SIZE)
    yield browser
    browser.quit()


@pytest.fixture
def driver(browser, viewer, unused_tcp_port):
    """A browser that shows it, and has kept nothing of the page before."""
    from tests.browser import DRAWN_S

    browser.set_window_size(*SIZE)
    browser.get_log("browser")  # which forgets it
    browser.get(f"http://127.0.0.1:{unused_tcp_port}/?token=token")
    drawn = "return !!view('figures')?.child_views.length && view('table').grid.getDataLength()"
    until(lambda: browser.execute_script(drawn) == 40, "table and figures", DRAWN_S)
    yield browser
    browser.execute_script("localStorage.clear()")
    browser.delete_all_cookies()
    first, *others = browser.window_handles
    for other in others:
        browser.switch_to.window(other)
        browser.close()
    browser.switch_to.window(first)
    browser.get("about:blank")
