"""The page on small screens, in a real browser, with a session that only a test has."""

from tests.browser import DRAWN_S, needs_browser
from tests.scenarios.sessions import until

pytestmark = needs_browser
DRAWN = "return !!view('figures')?.child_views.length"
WHOLE = "return document.documentElement.scrollWidth"
ENDS = """
  return ["lamp", "state", "values"].map((name) => {
    const {left, right, bottom} = view(name).el.getBoundingClientRect();
    return [left, right, bottom];
  })
"""


def test_what_matters_is_readable_on_small_screens(driver):
    for width, height in ((390, 844), (800, 600)):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.refresh()
        until(lambda: driver.execute_script(DRAWN), "figures", DRAWN_S)
        until(lambda width=width: driver.execute_script(WHOLE) <= width, "no sideways scrolling")
        for left, right, bottom in driver.execute_script(ENDS):
            assert left >= 0.0
            assert right <= width
            assert bottom <= height
        folded = "return !document.getElementById('control').open"
        assert driver.execute_script(folded)
    driver.execute_script("document.querySelector('summary').click()")
    shown = "return view('stop').el.getBoundingClientRect().width"
    until(lambda: driver.execute_script(shown) > 50.0, "stop")


ORDER = """
  const top = (element) => element.getBoundingClientRect().top;
  return [view("lamp").el, view("values").el, document.getElementById("control"),
          view("plots").el].map(top);
"""


def test_on_a_phone_values_come_before_controls_and_plots(driver):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.refresh()
    until(lambda: driver.execute_script(DRAWN), "figures", DRAWN_S)
    until(lambda: (tops := driver.execute_script(ORDER)) == sorted(tops), "order")
    lamp, values, control, plots = driver.execute_script(ORDER)
    assert lamp < values < control < plots
