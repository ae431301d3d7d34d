"""The page by keyboard, in a real browser, with a session that only a test has."""

from tests.browser import needs_browser, webdriver
from tests.scenarios.sessions import until

pytestmark = needs_browser
TAB, SHIFT, SPACE, F8, F9 = "\ue004", "\ue008", "\ue00d", "\ue038", "\ue039"
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
