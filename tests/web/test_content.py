"""What of the page is touched when a part of it gets other content."""

import itertools

import msgspec
import pytest

from hilrt.web.page import FOLDER
from tests.browser import needs_browser
from tests.scenarios.sessions import until
from tests.web.views import RUNNING

pytestmark = needs_browser
CONTENTS = (
    "",
    "one &amp; two",
    "<p>one</p>",
    '<p class="loud" title="x">one <b>two</b></p><p>three</p>',
    '<p title="y">one <i>two</i> four</p>',
    "<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>",
    "<table><tr><td>1</td></tr></table>five",
    '<svg viewBox="0 0 9 9"><g><path d="M0 0"/><text>a</text></g></svg>',
    '<svg viewBox="0 0 8 9"><g><text x="1">b</text></g><path d="M1 1"/></svg>',
)
FOLLOWED = """
  const [before, after] = arguments
  const part = {text: before}, markup_el = document.createElement("div")
  markup_el.innerHTML = before
  const view = {markup_el}, Bokeh = {index: {find_one: () => view}}
  new Function("parts", "Bokeh", FOLLOW)([part], Bokeh)
  part.text = after
  view.rerender()
  const wanted = document.createElement("div")
  wanted.innerHTML = after
  return [markup_el.isEqualNode(wanted), markup_el.innerHTML]
"""


def test_any_content_becomes_any_other(driver):
    code = (FOLDER / "content.js").read_text(encoding="utf-8")
    driver.execute_script("window.FOLLOW = arguments[0]", code)
    for before, after in itertools.permutations(CONTENTS, 2):
        equal, found = driver.execute_script(FOLLOWED, before, after)
        assert equal, f"{before} to {after}: {found}"


@pytest.mark.parametrize("name", ["state", "peers"])
def test_what_stays_is_not_made_anew(driver, viewer, name):
    first = "view(arguments[0]).markup_el.querySelector('.big, td')"
    driver.execute_script(f"{first}.kept = true", name)
    shown = "return view(arguments[0]).markup_el.textContent"
    before = driver.execute_script(shown, name)
    peers = {name: msgspec.structs.replace(peer, late=9) for name, peer in RUNNING.peers.items()}
    viewer.status = msgspec.structs.replace(RUNNING, t=13.0, peers=peers)
    until(lambda: driver.execute_script(shown, name) != before, "other content", 60.0)
    assert driver.execute_script(f"return {first}.kept", name)


INJECT = """
  const script = document.createElement("script"), image = document.createElement("img")
  script.textContent = "window.injected = 'script'"
  image.setAttribute("onerror", "window.injected = 'attribute'")
  document.body.append(script, image)
  image.src = "data:image/png;base64,none"
  return new Promise((done) => setTimeout(() => done(window.injected ?? "nothing"), 200))
"""


def test_scripts_that_came_as_content_do_not_run(driver):
    shown = [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"]
    assert shown == []  # the page itself needs nothing that its policy refuses
    assert driver.execute_script(INJECT) == "nothing"
    refused = [entry["message"] for entry in driver.get_log("browser")]
    assert sum("Content Security Policy" in message for message in refused) >= 2
