"""Reference models: the estimate of a session whose subsystems cannot be probed themselves."""

from __future__ import annotations

import asyncio
import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from hilrt.config.structs import SubsystemOptions
from hilrt.coupling.closed_loop import sensitivities_of
from hilrt.hosting.reference_model import try_reference
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.monitor.closing_table import closing_table
from hilrt.session.assembly import assemble
from hilrt.session.initialization import initialize
from hilrt.session.opening import Connected
from hilrt.session.result import Result
from hilrt.session.simulate import simulate
from hilrt.solver import Ports
from hilrt.tables.plan import Plan
from hilrt.tables.ports import Coupled
from hilrt.wording import UNCHECKED_MODEL
from hilrt_adapters.inprocess import InProcessLink
from tests.session.reference_solvers import InOtherUnits, OpaqueMass
from tests.stepping import make_network, make_session

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
SOLVERS = "tests.session.reference_solvers"
EXACT = {f"subsystems.{name}.params.integrator": "exact" for name in ("mass1", "mass2")}
OPAQUE = {"subsystems.mass2.model": f"{SOLVERS}:OpaqueMass"}
REFERENCE = "subsystems.mass2.reference_model"
OF_MODEL = "sensitivities of a model"


def run(settings: dict[str, Any]) -> Result:
    short = {"session.duration": 1.0, "bonds.spring.correction.method": "none"}
    return simulate(TWO_MASS, short | EXACT | settings, record=False)


def values(result: Result, how: str) -> list[float]:
    errors = result.summary["estimated_error"].values()
    assert {error["how"] for error in errors} == {how}
    return [error["value"] for error in errors]


@pytest.mark.parametrize("model", ["hilrt.models.two_mass:Mass2", f"{SOLVERS}:InOtherUnits"])
def test_an_exact_model_gives_the_estimate_of_the_subsystem_itself(model: str) -> None:
    reference = {REFERENCE: model, "subsystems.mass2.reference_params": {"integrator": "exact"}}
    found = run(OPAQUE | reference)
    np.testing.assert_allclose(values(found, OF_MODEL), values(run({}), "sensitivities"), rtol=1e-6)
    told = io.StringIO()
    Console(file=told, width=200).print(closing_table(found.summary))
    assert UNCHECKED_MODEL.split(";")[0] in " ".join(told.getvalue().split())
    (reason,) = [
        r for r in found.summary["reasons"] if r.startswith("estimated error: that of mass")
    ]
    assert reason.endswith("by a reference model that was not validated")


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (f"{SOLVERS}:WithoutSpeed", "has no output 'v' (m/s), which is connected"),
        (f"{SOLVERS}:OpaqueMass", "it does not save and restore its state"),
    ],
)
def test_what_does_not_work_is_told_and_the_gain_range_stands(
    model: str, why: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hilrt.session.opening.check", lambda *args, **kwargs: [])
    with caplog.at_level(logging.WARNING, "hilrt"):
        found = run(OPAQUE | {REFERENCE: model})
    values(found, "gain range, lag of feedthrough as a delay")
    (record,) = [r for r in caplog.records if r.name == "hilrt.reference_model"]
    assert f"the reference model {model} of mass2 is not used" in record.getMessage()
    assert why in record.getMessage()


class Bench(InProcessLink):
    physical = True


def assembled(kind: type[InProcessLink], reference: bool) -> Plan:
    table = {"reference_model": "hilrt.models.two_mass:Mass2"} if reference else {}
    tables = make_session(
        {
            "master": {"step": 1e-3},
            "subsystems": {"mass1": {}, "mass2": table},
            "connections": [
                {"from": "mass1.force", "to": "mass2.force"},
                {"from": "mass2.x", "to": "mass1.x2"},
                {"from": "mass2.v", "to": "mass1.v2"},
            ],
        }
    )
    links = []
    for name, cls, solver in (("mass1", InProcessLink, Mass1()), ("mass2", kind, Mass2())):
        link = cls(name, SubsystemOptions(adapter="inprocess"), Path())
        link.host(solver)
        links.append(link)

    async def start() -> Plan:
        return (await assemble(await initialize(Connected.of(links, tables))))[0].plan

    return asyncio.run(start())


def test_a_bench_gets_the_answers_of_its_model_and_a_dead_time_that_no_model_has() -> None:
    itself, bench = assembled(InProcessLink, False), assembled(Bench, True)
    for name in ("error_paths", "error_answers", "direct"):
        np.testing.assert_array_equal(getattr(itself, name), getattr(bench, name))
    np.testing.assert_allclose(bench.inputs["dead_time"], [0.0, 0.0, 1.25e-3])
    assert not itself.inputs["dead_time"].any()
    assert assembled(Bench, False).session["error_states"] == 0


def test_a_model_that_leaves_the_loop_unknown_does_not_count() -> None:
    ports = {name: Ports(s.inputs, s.outputs) for name, s in (("a", Mass1()), ("b", Mass2()))}
    connections = [{"from": "a.force", "to": "b.force"}, {"from": "b.x", "to": "a.x2"}]
    network, _ = make_network(ports, connections=connections)
    both = Coupled({"x2"}, {"force"})
    of_a = try_reference(Mass1(), ports["a"], both, np.zeros(2), 1e-3)
    found = sensitivities_of(network, [of_a, None], 1e-3)
    assert (found.direct, found.answers_known, found.of_reference) == ([], [], False)


def test_an_output_that_the_model_lacks_has_no_band() -> None:
    ports = Ports(Mass2.inputs, (*Mass2.outputs, Mass1.outputs[0]))
    model = try_reference(Mass2(), ports, Coupled({"force"}, {"v"}), np.zeros(1), 1e-3)
    assert (model.lacking, model.of_reference) == ((2,), True)
    np.testing.assert_array_equal(model.C[2], 0.0)
    other = try_reference(InOtherUnits(), ports, Coupled({"force"}, {"v"}), np.zeros(1), 1e-3)
    for mine, theirs in zip(model[:4], other[:4], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
    assert not OpaqueMass().can_restore()
