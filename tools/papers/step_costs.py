"""Cost of a macro step by its parts, for chains of more and more subsystems.

    python -m tools.papers.step_costs [--sizes 10,50,191,1000,2399] [--schemes explicit,implicit]

Multibody Syst. Dyn. 09817 (2022), sections 6.3 and 6.4, Figs 29 to 34. The chain of section 6.2
with 52 masses per segment, in one process, with order control: ExSLocal at d = 1e4, or ImSLocal at
d = 5e5 with low-order sensitivities. Only steps after the impulse has begun count. Processor time
per macro step that passed, ms, refused attempts included:

* ``integration_ms``: the subsystems' integration;
* ``jacobian_ms``: the interface Jacobian (implicit);
* ``estimate_ms``: macro step, error estimate, control of step and order, corrector without the
  integrations;
* ``exchange_ms``: taking the samples and sending the inputs, without the integrations.

With ``--hosts`` the segments are in two processes instead, and the time on the clock is compared:
``two_over_whole`` is the time of the session divided by that of the whole chain integrated at once
by the same method and tolerances in one process, over the same session time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hilrt
from bench_configs.long_chain import Segments, chain, session, step
from hilrt import InputPolynomial, simulate
from hilrt.exchange.exchange import Exchange
from hilrt.exchange.implicit_scheme import ImplicitScheme
from hilrt.exchange.local_errors import LocalErrors
from hilrt.step.numerics import Numerics

CONFIGS = Path(__file__).parents[2] / "bench_configs"
#: Masses per segment, and where counting begins: inside the rise of the impulse, s.
MASSES, BEGIN = 52, 1e-4
CASES: dict[str, dict[str, Any]] = {"explicit": {"d": 1e4}, "implicit": {"d": 5e5}}


class Costs:
    """Processor time by part, s; time in an inner part does not count in the outer one."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    def _switch(self) -> None:
        now = time.thread_time()
        if self._open:
            self.spent[self._open[-1]] += now - self._since
        self._since = now

    def of(self, owner: Any, method: str, part: str) -> None:
        """Count the time of a method under `part`."""
        call: Callable[..., Any] = getattr(owner, method)

        def counted(*arguments: Any, **more: Any) -> Any:
            self._switch()
            self._open.append("jacobian" if "jacobian" in self._open else part)
            try:
                return call(*arguments, **more)
            finally:
                self._switch()
                self._open.pop()

        setattr(owner, method, counted)

    def reset(self) -> None:
        """Begin to count."""
        self._switch()
        self.spent.clear()


def built(scheme: str, segments: int, until: float) -> Any:
    """Session of the chain with `segments` segments to `until` [s], and the values it changes."""
    file = session(segments, MASSES * segments, duration=until, **CASES[scheme]).build(CONFIGS)
    return file, {"master.scheme": scheme, "master.interface_jacobian": "low_order"}


def split(scheme: str, segments: int, span: float) -> dict[str, float]:
    """Processor time per macro step by part, ms, over `span` [s] from the impulse on."""
    costs, steps = Costs(), 0
    for owner, method, part in (
        (Segments, "advance", "integration"),
        (ImplicitScheme, "_find_jacobian", "jacobian"),
        (ImplicitScheme, "correct", "estimate"),
        (LocalErrors, "estimate", "estimate"),
        (Numerics, "macro_step", "estimate"),
        (Numerics, "assess", "estimate"),
        (Exchange, "cut", "exchange"),
        (Exchange, "dispatch", "exchange"),
        (Exchange, "repeat", "exchange"),
    ):
        costs.of(owner, method, part)
    plain = Numerics.macro_step

    def stepped(self: Numerics) -> None:
        nonlocal steps
        if self.given.session[0].t < BEGIN:
            costs.reset()
        else:
            steps += 1
        plain(self)

    Numerics.macro_step = stepped  # type: ignore[method-assign]
    result = simulate(*built(scheme, segments, BEGIN + span))
    if result.fault:
        sys.exit(f"{segments} segments, {scheme}: {result.fault}")
    found = {"steps": float(steps), "step_us": span / steps * 1e6}
    for part in ("integration", "jacobian", "estimate", "exchange"):
        found[f"{part}_ms"] = costs.spent[part] / steps * 1e3
    return found


def hosted(segments: int, span: float) -> dict[str, float]:
    """Time on the clock of two processes with half of the segments each, over the whole chain's.

    Steps are not repeated: a subsystem in another process cannot go back.
    """
    builder = session(segments, MASSES * segments, duration=BEGIN + span, hosts=2)
    builder.set("master", connect_timeout=60.0)
    began: list[float] = []
    plain = Numerics.macro_step

    def stepped(self: Numerics) -> None:
        if self.given.session[0].t >= BEGIN and not began:
            began.append(time.perf_counter())
        plain(self)

    Numerics.macro_step = stepped  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "session.toml"
        file.write_text(builder.text(), encoding="utf-8")
        result = hilrt.run_session(file, options=hilrt.RunOptions(folder=Path(folder) / "run"))
    if result.fault:
        sys.exit(f"{segments} segments: {result.fault}")
    took = time.perf_counter() - began[0]
    whole = chain(1, MASSES * segments)
    still = InputPolynomial(0.0, np.zeros((1, 2)))
    step(whole.first, whole.table, whole.state, 0.0, BEGIN, still)
    began[0] = time.perf_counter()
    step(whole.first, whole.table, whole.state, BEGIN, span, still)
    alone = time.perf_counter() - began[0]
    return {"session_s": took, "whole_s": alone, "two_over_whole": took / alone}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="10,50,191,1000,2399")
    parser.add_argument("--schemes", default="explicit,implicit")
    parser.add_argument("--hosts", action="store_true", help="two processes, against the whole")
    parser.add_argument(
        "--span", type=float, default=2e-6, metavar="S", help="session time counted"
    )
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # in a separate process
    arguments = parser.parse_args()
    if arguments.one:
        scheme, n = arguments.one[0], int(arguments.one[1])
        whole = scheme == "hosts"
        found = hosted(n, arguments.span) if whole else split(scheme, n, arguments.span)
        print(json.dumps(found))
        return
    for scheme in ["hosts"] if arguments.hosts else arguments.schemes.split(","):
        for n in map(int, arguments.sizes.split(",")):
            argv = [sys.executable, "-m", "tools.papers.step_costs", "--one", scheme, str(n)]
            argv += ["--span", str(arguments.span)]
            done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
            row = json.loads(done.stdout.splitlines()[-1])
            shown = "".join(f"  {name} {value:.4g}" for name, value in row.items())
            print(f"{scheme:>10} {n:>6}{shown}", flush=True)


if __name__ == "__main__":
    main()
