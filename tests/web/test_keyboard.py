"""The page by keyboard, in a real browser, with a session that only a test has."""

import msgspec

from tests.browser import needs_browser, webdriver
from tests.scenarios.sessions import until
from tests.web.views import RUNNING

pytestmark = needs_browser
TAB, SHIFT, SPACE, F8, F9 = "\ue004", "\ue008", "\ue00d", "\ue038", "\ue039"
ALL, ERASE = "\ue009a\ue000", "\ue003"
FIELD = "return view(arguments[0]).shadow_el.querySelector('input')"
FOCUS = """
  let e = document.activeElement;
  while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
  for (; e && e !== document; e = e.parentNode ?? e.host)
    for (const name of ["table", "acknowledge", "arm", "safe", "stop", "who", "pause"])
      if (view(name)?.el === e) return name;
  return "";
"""


def keys(driver, *pressed, held=()):
    actions = webdriver.ActionChains(driver)
    for key in held:
        actions.key_down(key)
    actions.send_keys(*pressed)
    for key in held:
        actions.key_up(key)
    actions.perform()


def test_safe_and_stop_are_near_by_keyboard_and_on_the_first_screen(driver, viewer):
    def focus():
        return driver.execute_script(FOCUS)

    bottom = "return view(arguments[0]).el.getBoundingClientRect().bottom - innerHeight"
    for name in ("arm", "safe", "stop"):
        assert driver.execute_script(bottom, name) < 0.0, name

    def press_of(name):
        driver.execute_script("view(arguments[0]).shadow_el.querySelector('button').focus()", name)
        assert focus() == name

    press_of("acknowledge")
    keys(driver, TAB)
    assert focus() == "table"
    keys(driver, SPACE)
    chosen = "return find('table').source.selected.indices"
    until(lambda: driver.execute_script(chosen) == [0], "selection")
    assert not driver.execute_script("return find('pause').active")
    keys(driver, TAB)  # one tab stop, whatever is in it
    assert focus() != "table"
    press_of("acknowledge")
    keys(driver, TAB)
    keys(driver, TAB, held=[SHIFT])
    assert focus() == "acknowledge"

    keys(driver, F8)
    until(lambda: [c.action for c in viewer.sent] == ["safe"], "safe")
    driver.execute_script("view('who').shadow_el.querySelector('input').focus()")
    keys(driver, F9)
    until(lambda: "again" in driver.execute_script("return find('stop').label"), "question")
    keys(driver, F9)
    until(lambda: [c.action for c in viewer.sent] == ["safe", "stop"], "stop")


def test_what_has_happened_has_the_widest_column(driver):
    """The table is made before the page has a width; its columns were all the same then."""
    widths = "return view('table').grid.getColumns().map((column) => column.width)"
    until(lambda: driver.execute_script(widths)[4] > 250, driver.execute_script(widths))
    whole = driver.execute_script("return view('table').el.clientWidth")
    assert whole - 30 < sum(driver.execute_script(widths)) <= whole


def typed(driver, name, text):
    """Type over what stands in a field, and leave it; what stands there then."""
    field = driver.execute_script(FIELD, name)
    field.send_keys(ALL + ERASE + text + TAB)
    return driver.execute_script("return arguments[0].value", field)


def test_a_number_is_sent_as_it_was_typed_or_refused(driver, viewer):
    until(lambda: driver.execute_script("return !!view('value')?.el.offsetParent"), "field")
    answer = "return view('answer').markup_el.textContent"
    for text, said in (
        ("0.9", "0.9 is outside 0 … 0.2"),
        ("0,15", "'0,15' has a comma"),
        ("-0.1", "-0.1 is outside 0 … 0.2"),
        ("1e", "'1e' is not a number"),
    ):
        assert typed(driver, "value", text) == text
        driver.execute_script("press('adjust')")
        until(lambda said=said: said in driver.execute_script(answer), said)
    # Numbers go to the session all the same: it refuses them, and its log has an event of that.
    assert [command.value for command in viewer.sent] == [0.9, -0.1]
    for text, value in (("1e-3", 0.001), ("0.123456789", 0.123456789)):
        typed(driver, "value", text)
        driver.execute_script("press('adjust')")
        until(lambda value=value: viewer.sent and viewer.sent[-1].value == value, text)

    field = driver.execute_script(FIELD, "value")
    typed(driver, "value", "")
    field.send_keys("0.1")  # and while it is being typed, the present value changes
    viewer.status = msgspec.structs.replace(RUNNING, adjustable={"bonds.shaft.cap": 0.05})
    shown = "return view('bounds').markup_el.textContent"
    until(lambda: "now 0.05" in driver.execute_script(shown), "present value")
    assert driver.execute_script("return arguments[0].value", field) == "0.1"
    field.send_keys("5")
    driver.execute_script("press('adjust')")
    until(lambda: viewer.sent[-1].value == 0.15, viewer.sent)
