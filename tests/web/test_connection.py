"""What the page says when its server is gone, in a real browser."""

import msgspec

from tests.browser import needs_browser
from tests.scenarios.sessions import until
from tests.web.views import RUNNING

pytestmark = needs_browser
#: Takes the place of the network; `window.served` maps paths to answers, all others are refused.
FETCH = """
  window.served = {};
  window.fetch = async (path) => {
    const answer = window.served[path.split("?")[0]];
    if (answer === undefined) throw new TypeError("refused");
    return new Response(answer, {headers: {"Content-Type": "text/html"}});
  };
"""
REPORT = "<title>none</title><script>document.title = 'the report'</script>"
SHOWN = "return [document.body.className, document.getElementById('lost').textContent]"


def test_an_end_is_no_lost_connection_and_leaves_the_report(driver, viewer):
    viewer.status = msgspec.structs.replace(RUNNING, state="STOPPED")
    until(lambda: driver.execute_script(SHOWN) == ["ended", "ended: stopped, good"], "the end")
    driver.execute_script(FETCH)
    driver.execute_script("connectionLost()")
    assert driver.execute_script(SHOWN) == ["ended", "ended: stopped, good"]
    said = '{"text": "ended: stopped, degraded", "report": %s, "over": %s}'
    serve = "window.served[arguments[0]] = arguments[1]"
    driver.execute_script(serve, "/ended.json", said % ("false", "false"))
    until(lambda: "is being written" in driver.execute_script(SHOWN)[1], "the report's beginning")
    driver.execute_script(serve, "/report.html", REPORT)
    driver.execute_script(serve, "/ended.json", said % ("true", "true"))
    whole = ["ended", "ended: stopped, degraded · report"]
    until(lambda: driver.execute_script(SHOWN) == whole, "the report")
    driver.execute_script("window.served = {}")  # nothing answers any more
    driver.execute_script("document.querySelector('#lost a').click()")
    until(lambda: len(driver.window_handles) == 2, "another tab")
    driver.switch_to.window(driver.window_handles[1])
    until(lambda: driver.title == "the report", "the report")


def test_a_server_that_is_gone_while_the_session_runs_is_no_end(driver):
    driver.execute_script(FETCH)
    assert driver.execute_script(SHOWN)[0] == ""
    driver.execute_script("connectionLost()")
    kind, said = driver.execute_script(SHOWN)
    assert kind == "lost"
    assert "NO CONNECTION" in said
