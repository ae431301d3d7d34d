"""The exchange of `bench_exchange.py` with HELICS and mosaik, for comparison.

    python -m tools.benchmarks.other_masters {helics_zmq,helics_ipc,mosaik,mosaik_inprocess} \\
        [--exchanges 500]

A hub and solver processes: in each exchange, the hub sends every solver the coefficients of its
inputs (8 numbers) and receives the outputs of all (4 numbers each) before the next one. Prints the
times of the exchanges, us, as JSON, or only a reason on standard error if the package is missing.

* HELICS: one core and federate per process and a broker in the hub's process. Solvers are granted
  half a step after the hub, so that one step is one complete exchange, instead of two steps with
  the previous step's values.
* mosaik: solvers are processes (`cmd`), the hub runs in mosaik's own process and receives the
  outputs time-shifted. A vector is one attribute, so that mosaik transfers it at once.
* mosaik_inprocess: the two-mass oscillator of `bench_inprocess.py` in mosaik's own process; both
  masses use the other's outputs from before the step, as in the sessions.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import time
from typing import Any

INPUTS, OUTPUTS = 8, 4
STEP_S = 1e-3
TIMEOUT_S, START_TIMEOUT_S = 120.0, 60.0
WARM_UP = 50
EXCHANGES = ("helics_zmq", "helics_ipc", "mosaik")
NEEDS = {name: name.partition("_")[0] for name in (*EXCHANGES, "mosaik_inprocess")}


def missing(name: str) -> str:
    """Packages to install before `measure` can use this master; empty if none are missing."""
    package = NEEDS[name]
    if importlib.util.find_spec(package) is not None:
        return ""
    return f"{name}: the package {package} is not installed; pip install hilrt[benchmarks]"


def measure(name: str, peers: int, exchanges: int) -> list[float]:
    """Times of the exchanges [us], measured in a separate process; empty if that failed."""
    command = [sys.executable, __file__, name, "--peers", str(peers)]
    try:
        done = subprocess.run(
            [*command, "--exchanges", str(exchanges)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{name} did not end within {TIMEOUT_S:g} s", file=sys.stderr)
        return []
    if done.returncode:
        print(f"{name} failed: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return []
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


# ---- HELICS ------------------------------------------------------------------------------------


def helics_federate(h: Any, name: str, core: str, broker: str, offset: float) -> Any:
    info = h.helicsCreateFederateInfo()
    h.helicsFederateInfoSetCoreTypeFromString(info, core)
    h.helicsFederateInfoSetCoreInitString(info, f"--federates=1 {broker}")
    h.helicsFederateInfoSetTimeProperty(info, h.HELICS_PROPERTY_TIME_PERIOD, 1.0)
    h.helicsFederateInfoSetTimeProperty(info, h.HELICS_PROPERTY_TIME_OFFSET, offset)
    h.helicsFederateInfoSetFlagOption(info, h.HELICS_FLAG_UNINTERRUPTIBLE, True)
    return h.helicsCreateValueFederate(name, info)


def helics_hub(core: str, peers: int, exchanges: int) -> list[float]:
    h: Any = importlib.import_module("helics")

    if core == "zmq":
        # HELICS needs several successive ports: below the ephemeral ones, different in each run.
        port = 20_000 + 20 * (os.getpid() % 500)
        address, broker_key = f"--port={port}", f"--brokerport={port}"
    else:
        queue = f"hub{os.getpid()}"
        address, broker_key = f"--local_interface={queue}", f"--broker_address={queue}"
    broker = h.helicsCreateBroker(core, f"hub{os.getpid()}", f"-f {peers + 1} {address}")
    command = [sys.executable, __file__, "helics_solver", "--exchanges", str(exchanges)]
    command += [f"--core={core}", f"--connect={broker_key}"]
    solvers = [subprocess.Popen([*command, "--number", str(i)]) for i in range(peers)]
    hub = helics_federate(h, "hub", core, broker_key, 0.0)
    vector = h.HELICS_DATA_TYPE_VECTOR
    sent = [
        h.helicsFederateRegisterGlobalPublication(hub, f"u{i}", vector, "") for i in range(peers)
    ]
    received = [h.helicsFederateRegisterSubscription(hub, f"y{i}", "") for i in range(peers)]
    h.helicsFederateEnterExecutingMode(hub)
    times = []
    for tick in range(WARM_UP + exchanges):
        start_ns = time.perf_counter_ns()
        for publication in sent:
            h.helicsPublicationPublishVector(publication, [float(tick)] * INPUTS)
        h.helicsFederateRequestTime(hub, tick + 1.0)
        answers = [h.helicsInputGetVector(one) for one in received]
        times.append((time.perf_counter_ns() - start_ns) * 1e-3)
        assert all(answer == [float(tick)] * OUTPUTS for answer in answers), (tick, answers)
    h.helicsFederateDisconnect(hub)
    for solver in solvers:
        solver.wait(10)
    h.helicsBrokerWaitForDisconnect(broker, 5000)
    h.helicsCloseLibrary()
    return times[WARM_UP:]


def helics_solver(core: str, broker_key: str, number: int, exchanges: int) -> None:
    h: Any = importlib.import_module("helics")

    federate = helics_federate(h, f"solver{number}", core, broker_key, 0.5)
    vector = h.HELICS_DATA_TYPE_VECTOR
    y = h.helicsFederateRegisterGlobalPublication(federate, f"y{number}", vector, "")
    u = h.helicsFederateRegisterSubscription(federate, f"u{number}", "")
    h.helicsFederateEnterExecutingMode(federate)
    for tick in range(WARM_UP + exchanges):
        h.helicsFederateRequestTime(federate, tick + 0.5)
        h.helicsPublicationPublishVector(y, h.helicsInputGetVector(u)[:OUTPUTS])
    h.helicsFederateDisconnect(federate)
    h.helicsCloseLibrary()


# ---- mosaik ------------------------------------------------------------------------------------


def mosaik_simulators() -> tuple[type, type]:
    """Hub and solver; defined on demand, as their base class is mosaik's."""
    api: Any = importlib.import_module("mosaik_api_v3")

    class Part(api.Simulator):  # type: ignore[misc]
        sends, takes = "y", "u"

        def __init__(self) -> None:
            model = {"public": True, "params": [], "attrs": ["u", "y"]}
            super().__init__({"type": "time-based", "models": {"Part": model}})
            self.value = [0.0] * OUTPUTS

        def create(self, num: int, model: str, **params: Any) -> list[dict[str, str]]:
            return [{"eid": f"part{i}", "type": model} for i in range(num)]

        def step(self, time: int, inputs: dict[str, Any], max_advance: int) -> int:
            if inputs:
                (given,) = inputs["part0"]["u"].values()
                self.value = given[:OUTPUTS]
            return time + 1

        def get_data(self, outputs: dict[str, list[str]]) -> dict[str, Any]:
            return {eid: dict.fromkeys(attrs, self.value) for eid, attrs in outputs.items()}

    class Hub(Part):
        begun_ns: list[int] = []  # noqa: RUF012  (of the only instance)

        def step(self, time_: int, inputs: dict[str, Any], max_advance: int) -> int:
            self.begun_ns.append(time.perf_counter_ns())
            self.value = [float(time_)] * INPUTS
            answers = [y for values in inputs.values() for y in values["y"].values()]
            assert all(y[0] == time_ - 1.0 for y in answers) or time_ == 0, (time_, answers)
            return time_ + 1

    return Hub, Part


def start_world(simulator: type, **solvers: Any) -> Any:
    """A world with `simulator` in this process, as "Here", and others as given."""
    mosaik: Any = importlib.import_module("mosaik")
    importlib.import_module("loguru").logger.remove()
    globals()["MosaikHere"] = simulator  # mosaik imports it by name, and from this very module
    sys.modules.setdefault("tools.benchmarks.other_masters", sys.modules[__name__])
    config = {"Here": {"python": "tools.benchmarks.other_masters:MosaikHere"}, **solvers}
    limits = {"start_timeout": START_TIMEOUT_S}
    return mosaik.World(config, limits, skip_greetings=True, configure_logging=False)


def mosaik_hub(peers: int, exchanges: int) -> list[float]:
    hub_class, _ = mosaik_simulators()
    solver_command = f"%(python)s {__file__} mosaik_solver --connect=%(addr)s"
    world = start_world(hub_class, Solver={"cmd": solver_command})
    zero = [0.0] * OUTPUTS
    hub = world.start("Here").Part.create(peers)
    for i in range(peers):
        solver = world.start("Solver").Part()
        world.connect(hub[i], solver, ("u", "u"))
        world.connect(solver, hub[i], ("y", "y"), time_shifted=True, initial_data={"y": zero})
    world.run(until=WARM_UP + exchanges + 1, print_progress=False)
    begun = hub_class.begun_ns[WARM_UP:]  # type: ignore[attr-defined]
    return [(b - a) * 1e-3 for a, b in itertools.pairwise(begun)]


def mosaik_solver(address: str) -> None:
    sys.argv = [sys.argv[0], address]
    api: Any = importlib.import_module("mosaik_api_v3")
    api.start_simulation(mosaik_simulators()[1]())


def mosaik_masses() -> type:
    """Simulator of one of the two masses; defined on demand, as its base class is mosaik's."""
    import numpy as np

    from hilrt import InputPolynomial
    from hilrt.models.two_mass import Mass1, Mass2

    api: Any = importlib.import_module("mosaik_api_v3")

    class Mass(api.Simulator):  # type: ignore[misc]
        begun_ns: list[int] = []  # noqa: RUF012  (every step of either mass)
        solvers: list[Mass1 | Mass2] = []  # noqa: RUF012

        def __init__(self) -> None:
            attrs = ["x2", "v2", "F", "force", "x", "v"]
            model = {"public": True, "params": ["first", "v"], "attrs": attrs}
            super().__init__({"type": "time-based", "models": {"Mass": model}})

        def create(self, num: int, model: str, first: bool, v: float) -> list[dict[str, str]]:
            self.solver = Mass1(v=v) if first else Mass2(k=1000.0, v=v)
            self.solvers.append(self.solver)
            self.takes = ("x2", "v2") if first else ("F",)
            self.gives = ("force", "x", "v") if first else ("v", "x")
            self.y = self.solver.initialize(0.0, np.zeros(len(self.takes))).y
            return [{"eid": "mass", "type": model}]

        def step(self, tick: int, inputs: dict[str, Any], max_advance: int) -> int:
            self.begun_ns.append(time.perf_counter_ns())
            given = inputs["mass"]
            u = np.array([[value for name in self.takes for value in given[name].values()]])
            t = tick * STEP_S
            self.y = self.solver.advance(t, STEP_S, InputPolynomial(t, u)).y
            return tick + 1

        def get_data(self, outputs: dict[str, list[str]]) -> dict[str, Any]:
            return {"mass": dict(zip(self.gives, self.y.tolist(), strict=True))}

    return Mass


def mosaik_two_mass(steps: int, v: float = 100.0) -> Any:
    """Class of the masses after so many steps from the first mass's initial speed, m/s."""
    mass_class: Any = mosaik_masses()
    world = start_world(mass_class)
    one = world.start("Here").Mass(first=True, v=v)
    two = world.start("Here").Mass(first=False, v=-100.0)
    for source, target, name, into, start in (
        (one, two, "force", "F", 0.0),
        (two, one, "x", "x2", 0.0),
        (two, one, "v", "v2", -100.0),
    ):
        world.connect(source, target, (name, into), time_shifted=True, initial_data={name: start})
    world.run(until=steps, print_progress=False)
    return mass_class


def mosaik_inprocess(steps: int) -> list[float]:
    begun = mosaik_two_mass(WARM_UP + steps + 1).begun_ns[2 * WARM_UP :: 2]
    return [(b - a) * 1e-3 for a, b in itertools.pairwise(begun)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=[*NEEDS, "helics_solver", "mosaik_solver"])
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--exchanges", type=int, default=500)
    for internal in ("--core", "--connect"):
        parser.add_argument(internal, default="", help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "helics_solver":
        helics_solver(options.core, options.connect, options.number, options.exchanges)
    elif options.what == "mosaik_solver":
        mosaik_solver(options.connect)
    elif problem := missing(options.what):
        print(problem, file=sys.stderr)
        return 2
    else:
        if options.what == "mosaik_inprocess":
            times = mosaik_inprocess(options.exchanges)
        elif options.what == "mosaik":
            times = mosaik_hub(options.peers, options.exchanges)
        else:
            times = helics_hub(options.what.partition("_")[2], options.peers, options.exchanges)
        print(json.dumps(times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
