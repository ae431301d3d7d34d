"""An SSP of two FMUs, from the archive to numbers: imported, checked and run as a user does it.

The reference integrates the two masses from their equations and from what the archive says, in
SI units; nothing of it comes from the package.
"""

import zipfile

import numpy as np
import pytest

import hilrt
from tests.fmu.build import mass, needs_compiler
from tests.fmu.test_ssp import (
    HEAD,
    LINEAR,
    PARAMETERS,
    REAL,
    component,
    connection,
    connector,
)
from tests.scenarios.fork_server import run_hilrt
from tests.scenarios.sessions import LINUX, TIMEOUT

pytestmark = [LINUX, needs_compiler]

STEP, START, STOP = 1e-3, 1.0, 1.3
NAMESPACES = HEAD[HEAD.index("xmlns:ssd") :]

#: `left` counts in grams and newtons per millimetre, hands its force to a box in kilonewtons, and
#: has back minus half the place of the mass in there, 10 mm on, and a tenth of the number that its
#: speed has in km/h, 0.2 on, as m/s.
SYSTEM = (
    HEAD
    + '<ssd:System name="root">'
    + PARAMETERS.format(REAL.format("left.m", 2000, "g") + REAL.format("left.k", 1, "N/mm"))
    + "<ssd:Elements>"
    + component(
        "left",
        "left.fmu",
        PARAMETERS.format(REAL.format("F", 0.003, "kN") + REAL.format("cc", 5, "N.s/m")),
    )
    + '<ssd:System name="box"><ssd:Connectors>'
    + connector("pull", "input", "kN")
    + connector("place", "output", "mm")
    + connector("speed", "output", "km/h")
    + '</ssd:Connectors><ssd:ParameterBindings><ssd:ParameterBinding source="set.ssv">'
    + '<ssd:ParameterMapping source="map.ssm"/></ssd:ParameterBinding></ssd:ParameterBindings>'
    + "<ssd:Elements>"
    + component("right", "right.fmu")
    + "</ssd:Elements><ssd:Connections>"
    + connection("pull", "right.F", LINEAR.format(2, 1))
    + connection("right.x", "place")
    + connection("right.v", "speed")
    + "</ssd:Connections></ssd:System>"
    + "</ssd:Elements><ssd:Connections>"
    + connection("left.force", "box.pull")
    + connection("box.place", "left.x2", LINEAR.format(-0.5, 0.01))
    + connection("box.speed", "left.v2", LINEAR.format(0.1, 0.2), suppressUnitConversion="true")
    + "</ssd:Connections></ssd:System>"
    + f'<ssd:DefaultExperiment startTime="{START}" stopTime="{STOP}"/>'
    + "</ssd:SystemStructureDescription>"
)
SET = (
    f'<ssv:ParameterSet version="1.0" name="s" {NAMESPACES}<ssv:Parameters>'
    '<ssv:Parameter name="stiffness"><ssv:Real value="30"/></ssv:Parameter>'
    '<ssv:Parameter name="pace"><ssv:Real value="3.6" unit="km/h"/></ssv:Parameter>'
    "</ssv:Parameters></ssv:ParameterSet>"
)
MAP = (
    f'<ssm:ParameterMapping version="1.0" {NAMESPACES}'
    f'<ssm:MappingEntry source="stiffness" target="right.k">{LINEAR.format(10, 5)}'
    '</ssm:MappingEntry><ssm:MappingEntry source="pace" target="right.v"/></ssm:ParameterMapping>'
)


class Mass:
    """m v' = F − k x − force, x' = v by symplectic Euler; force = 100 (x − x2) + cc (v − v2)."""

    def __init__(self, m=1.0, k=10.0, v=0.0, cc=0.0):
        self.m, self.k, self.cc, self.v = m, k, cc, v
        self.x = self.x2 = self.v2 = self.F = 0.0

    @property
    def force(self):
        return 100.0 * (self.x - self.x2) + self.cc * (self.v - self.v2)

    def step(self):
        self.v += STEP * (-self.k * self.x - self.force + self.F) / self.m
        self.x += STEP * self.v


def reference(n):
    """(n + 1, 4): force and place of the left mass, place and speed of the right one.

    A step holds its inputs; the force, which depends on them directly, is read with what they are
    extrapolated to at the step's end (first order, from the second step on).
    """
    left, right = Mass(m=2.0, k=1000.0, cc=5.0), Mass(k=10.0 * 30.0 + 5.0, v=1.0)
    left.F = 3.0
    rows = []
    points = []  # what the left mass is sent at each communication point
    for i in range(n + 1):
        if i:
            left.step()
            right.step()
            end = 2.0 * points[-1] - points[-2] if i > 1 else points[-1]
        else:
            end = 0.01, 0.2 + 0.36  # the right mass is at 0, with 1 m/s
        left.x2, left.v2 = end
        force = left.force
        rows.append((force, left.x, right.x, right.v))
        points.append(np.array([-0.5 * right.x + 0.01, 0.1 * 3.6 * right.v + 0.2]))
        left.x2, left.v2 = points[-1]  # both ways at once
        right.F = 2.0 * force + 1.0
    return np.array(rows)


def hilrt_command(*words):
    return run_hilrt(*words, timeout=TIMEOUT)


@pytest.mark.parametrize("options", [[], ["--hosted"]], ids=["in process", "hosted"])
def test_from_the_archive_to_numbers(options, tmp_path):
    archive, session = tmp_path / "system.ssp", tmp_path / "system.toml"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("SystemStructure.ssd", SYSTEM)
        packed.writestr("set.ssv", SET)
        packed.writestr("map.ssm", MAP)
        packed.write(mass(2), "resources/left.fmu")
        packed.write(mass(3), "resources/right.fmu")
    made = hilrt_command("import-ssp", archive, "--out", session, *options)
    assert (made.returncode, made.stderr) == (0, "")
    checked = hilrt_command("check", session)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    ran = hilrt_command("run", session, "--out", tmp_path / "runs", "--quiet")
    assert ran.returncode == 0, ran.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    log = hilrt.load_log(folder)
    expected = reference(len(log.t) - 1)
    assert log.t[-1] == pytest.approx(STOP - START, abs=1e-12)
    for i, name in enumerate(("left.force", "left.x", "box_right.x", "box_right.v")):
        np.testing.assert_allclose(log[name], expected[:, i], rtol=1e-9, atol=1e-12, err_msg=name)
