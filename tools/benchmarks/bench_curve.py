"""Cost of a step over the number of subsystems, beside HELICS and mosaik with the same models.

    python -m tools.benchmarks.bench_curve [--json] [--sizes 10,100,1000] [--steps 50] [--rounds 3]

A ring of masses between springs, held inputs, every mass a subsystem of its own in one process:

* ``hilrt``: subsystems in the master's process, without a log;
* ``hilrt_group``: the same as one group;
* ``mosaik``: a simulator for each mass in mosaik's process, outputs time-shifted; up to 100, as its
  cost per mass grows with their number;
* ``helics``: a federate for each mass, all on one core in the process.

All step the same Python class, and end at the same displacements, bit for bit: that is checked. In
each round every tool runs once for each size, in a process of its own, after a ring of three that
has loaded the code. The table has medians over the rounds:

* ``step_us``: processor time per subsystem and step, the model's step included; median;
* ``wall_us``: the same on the wall clock;
* ``setup_s``: processor time from the first call to the first step;
* ``over``: ``step_us`` over that of ``hilrt`` in the same round.

A missing package (``pip install hilrt[benchmarks]``) is left out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import hilrt
import tools.benchmarks.bench_curve as here  # when this runs, it is another module
from tools.benchmarks import bench_scale, other_masters
from tools.benchmarks.timed import Cell

STEP_S = bench_scale.STEP_S
#: Steps that warm up.
WARM_UP = 5
TIMEOUT_S = 600.0
#: Largest number of simulators of mosaik.
MOST_OF_MOSAIK = 100


class Mass(Cell):
    """Mass number `i` of the ring; the first one notes when it is advanced."""

    made: ClassVar[dict[int, Mass]] = {}
    begun_ns: ClassVar[list[tuple[int, int]]] = []

    def __init__(self, i: int = 0) -> None:
        super().__init__(0.01 * (i % 7))
        self.i = i
        self.made[i] = self

    def advance(self, t: float, h: float, u: hilrt.InputPolynomial) -> hilrt.Sample:
        if self.i == 0:
            self.begun_ns.append((time.process_time_ns(), time.perf_counter_ns()))
        return super().advance(t, h, u)

    def stepped(self, k: int, left: float, right: float) -> float:
        """Make step `k`; the displacement after it."""
        t = k * STEP_S
        self.advance(t, STEP_S, hilrt.InputPolynomial(t, np.array([[left, right]])))
        return self.x


def run_hilrt(n: int, steps: int, group: bool = False) -> None:
    builder = hilrt.SessionBuilder("ring", duration=steps * STEP_S, step=STEP_S, pace="asap")
    builder.set("master", extrapolation={"order": 0})
    model, names = f"{here.__name__}:Mass", [f"m{i}" for i in range(n)]
    if group:
        builder.group("ring", model, names, each={"i": list(range(n))})
    else:
        for i, name in enumerate(names):
            builder.subsystem(name, adapter="inprocess", model=model, params={"i": i})
    for i in range(n):
        right = (i + 1) % n
        builder.connect(f"m{i}.x", f"m{right}.left").connect(f"m{right}.x", f"m{i}.right")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ring.toml"
        file.write_text(builder.text(), encoding="utf-8")
        result = hilrt.simulate(file, record=False)
    if result.fault:
        sys.exit(f"the session ended early: {result.fault}")


def mosaik_simulator() -> type:
    """Simulator of a mass; made on demand, as its base class is mosaik's."""
    api: Any = importlib.import_module("mosaik_api_v3")

    class Simulator(api.Simulator):  # type: ignore[misc]
        def __init__(self) -> None:
            model = {"public": True, "params": ["i"], "attrs": ["left", "right", "x"]}
            super().__init__({"type": "time-based", "models": {"Mass": model}})

        def create(self, num: int, model: str, i: int) -> list[dict[str, str]]:
            self.mass = here.Mass(i)
            return [{"eid": "mass", "type": model}]

        def step(self, tick: int, inputs: dict[str, Any], max_advance: int) -> int:
            given = inputs["mass"]
            left, right = (next(iter(given[name].values())) for name in ("left", "right"))
            self.mass.stepped(tick, left, right)
            return tick + 1

        def get_data(self, outputs: dict[str, list[str]]) -> dict[str, Any]:
            return {"mass": {"x": self.mass.x}}

    return Simulator


def run_mosaik(n: int, steps: int) -> None:
    world = other_masters.start_world(mosaik_simulator())
    masses = [world.start("Here").Mass(i=i) for i in range(n)]
    for i in range(n):
        right = (i + 1) % n
        for source, target, name in ((i, right, "left"), (right, i, "right")):
            given = {"time_shifted": True, "initial_data": {"x": here.Mass.made[source].x}}
            world.connect(masses[source], masses[target], ("x", name), **given)
    world.run(until=steps, print_progress=False)


def run_helics(n: int, steps: int) -> None:
    h: Any = importlib.import_module("helics")
    own = f"{os.getpid()}_{n}"
    broker = h.helicsCreateBroker("inproc", f"broker{own}", "-f 1")
    core = h.helicsCreateCore("inproc", f"core{own}", f"-f {n} --broker=broker{own}")
    federates, sent, received = [], [], []
    masses = [here.Mass(i) for i in range(n)]
    for i in range(n):
        info = h.helicsCreateFederateInfo()
        h.helicsFederateInfoSetCoreName(info, f"core{own}")
        h.helicsFederateInfoSetTimeProperty(info, h.HELICS_PROPERTY_TIME_PERIOD, 1.0)
        h.helicsFederateInfoSetFlagOption(info, h.HELICS_FLAG_UNINTERRUPTIBLE, True)
        federate = h.helicsCreateValueFederate(f"m{i}", info)
        double = h.HELICS_DATA_TYPE_DOUBLE
        sent.append(h.helicsFederateRegisterGlobalPublication(federate, f"x{i}", double, ""))
        sides = ((i - 1) % n, (i + 1) % n)
        received.append(
            [h.helicsFederateRegisterSubscription(federate, f"x{j}", "") for j in sides]
        )
        federates.append(federate)
    for federate in federates:
        h.helicsFederateEnterExecutingModeAsync(federate)
    for federate in federates:
        h.helicsFederateEnterExecutingModeComplete(federate)
    for k in range(steps + 1):
        for federate, publication, mass in zip(federates, sent, masses, strict=True):
            h.helicsPublicationPublishDouble(publication, mass.x)
            h.helicsFederateRequestTimeAsync(federate, k + 1.0)
        for federate in federates:
            h.helicsFederateRequestTimeComplete(federate)
        if k < steps:
            for mass, inputs in zip(masses, received, strict=True):
                mass.stepped(k, *(h.helicsInputGetDouble(one) for one in inputs))
    for federate in federates:
        h.helicsFederateDisconnect(federate)
    h.helicsCoreDisconnect(core)
    h.helicsBrokerWaitForDisconnect(broker, 5000)
    h.helicsCloseLibrary()


TOOLS = {
    "hilrt": run_hilrt,
    "hilrt_group": lambda n, steps: run_hilrt(n, steps, group=True),
    "mosaik": run_mosaik,
    "helics": run_helics,
}


def measure(tool: str, n: int, steps: int) -> dict[str, Any]:
    """Costs of one run in this process, and where the masses are in the end."""
    if not tool.startswith("helics"):  # which is used once in a process
        TOOLS[tool](3, 2)
    here.Mass.made.clear()
    here.Mass.begun_ns.clear()
    begun = time.process_time_ns()
    TOOLS[tool](n, steps)
    ends = [here.Mass.made[i].x for i in range(n)]
    setup = (here.Mass.begun_ns[0][0] - begun) * 1e-9
    used, wall = np.median(np.diff(here.Mass.begun_ns[WARM_UP:], axis=0), axis=0) * 1e-3 / n
    return {"step_us": float(used), "wall_us": float(wall), "setup_s": setup, "ends": ends}


def in_process(tool: str, n: int, steps: int) -> dict[str, Any] | None:
    """`measure` in a process of its own; None where it failed."""
    argv = [sys.executable, "-m", here.__name__, "--steps", str(steps), "--one", tool, str(n)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        print(f"{tool}, {n}: did not end within {TIMEOUT_S:g} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"{tool}, {n}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_all(sizes: list[int], steps: int, rounds: int) -> dict[str, dict[str, float]]:
    """Medians over the rounds, by ``"TOOL, SIZE"``."""
    tools = [tool for tool in TOOLS if "hilrt" in tool or importlib.util.find_spec(tool)]
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for n in sizes:
            fit = [tool for tool in tools if tool != "mosaik" or n <= MOST_OF_MOSAIK]
            ran = {tool: in_process(tool, n, steps) for tool in fit}
            base = ran["hilrt"]
            assert base is not None
            for tool, one in ran.items():
                if one is not None:
                    if one["ends"] != base["ends"]:
                        sys.exit(f"{tool}, {n}: other displacements than hilrt's")
                    one["over"] = one["step_us"] / base["step_us"]
                    found.setdefault(f"{tool}, {n}", []).append(one)
    keys = ("step_us", "wall_us", "setup_s", "over")
    return {
        name: {key: statistics.median(one[key] for one in some) for key in keys}
        for name, some in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", default="10,100,1000")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # in a separate process
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one[0], int(chosen.one[1]), chosen.steps)))
        return
    table = measure_all(list(map(int, chosen.sizes.split(","))), chosen.steps, chosen.rounds)
    if chosen.json:
        print(json.dumps({"load": os.getloadavg(), "table": table}, indent=1))
        return
    print("load average", *os.getloadavg())
    print(f"{'':20}" + "".join(f"{key:>12}" for key in next(iter(table.values()))))
    for name, row in table.items():
        print(f"{name:20}" + "".join(f"{value:12.3f}" for value in row.values()))


if __name__ == "__main__":
    main()
