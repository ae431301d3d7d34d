"""Draws of corrections and of step and order control, right and wrong."""

from __future__ import annotations

from typing import Any

from tools.calibration.parts import Part
from tools.calibration.systems import CoupledSystem, Random, log_uniform


def draw_methods(
    tables: dict[str, Any],
    system: CoupledSystem,
    paced: bool,
    bench: str,
    every: int,
    restorable: dict[str, bool],
    random: Random,
    settings: dict[str, Any],
) -> None:
    """Add ``[[bonds]]``, ``jacobian`` and the step and order control of ``[master]``."""
    tables["bonds"], method = [], "none"
    if system.bonds:
        method = str(
            random.choice(["none", "energy", "feedthrough", "model"], p=[0.4, 0.3, 0.15, 0.15])
        )
        correction = _draw_correction(method, system, restorable, tables, random, settings, paced)
        if bench and method == "energy":
            correction |= {"permit_on_bench": True, "cap_abs": 1e12}
        effort, flow = system.bonds[0]
        efforts = effort.split("+")
        tables["bonds"] = [
            {
                "name": "bond",
                "effort": efforts if len(efforts) > 1 else effort,
                "flow": flow,
                "correction": correction,
            }
        ]
    settings["method"] = method
    settings["control"] = "fixed"
    if paced or every > 1:
        return
    chance = random.random()
    if chance < 0.12:
        settings["control"] = _draw_step_control(tables["master"], bool(system.bonds), random)
    elif chance < 0.2:
        tables["master"]["order_control"] = {"method": "derivatives"}
        settings["control"] = "order"


def _draw_step_control(master: dict[str, Any], bonds: bool, random: Random) -> str:
    kinds = ["pi", "local", "ecco"] if bonds else ["pi", "local"]
    kind = str(random.choice(kinds))
    h = master["step"]
    control: dict[str, Any] = {"method": kind, "minimum": 0.25 * h, "maximum": 4.0 * h}
    tolerance = log_uniform(random, 1e-3, 0.1)
    if kind == "pi":
        control |= {"tolerance": 1.0, "rtol": tolerance, "atol": 0.0}
    elif kind == "local":
        control |= {"rtol": 0.1 * tolerance, "atol": 0.0}
    else:
        control |= {"rtol": tolerance}
    master["step_control"] = control
    return kind


def _draw_correction(
    method: str,
    system: CoupledSystem,
    restorable: dict[str, bool],
    tables: dict[str, Any],
    random: Random,
    settings: dict[str, Any],
    paced: bool,
) -> dict[str, Any]:
    if method == "energy":
        kind = str(random.choice(["derived", "half", "any"], p=[0.3, 0.4, 0.3]))
        correction: dict[str, Any] = {
            "method": "energy",
            "residual": str(random.choice(["sent", "held"])),
            "cap": float(random.choice([0.1, 0.3, 1.0])),
            "nu": float(random.uniform(0.0, 0.4)) if random.random() < 0.4 else 0.0,
        }
        if kind != "derived":
            correction["mu"] = 0.5 if kind == "half" else log_uniform(random, 0.03, 1.0)
        settings["correction"] = correction
        return correction
    if method == "feedthrough":
        factor = _draw_factor(random)
        settings["factor"] = factor
        for part in system.parts:
            if part.feedthrough.any():
                given = {"source": "given", "D": (factor * part.feedthrough).tolist()}
                tables["subsystems"][part.name]["jacobian"] = given
        return {"method": "feedthrough"}
    if method == "model":
        settings["jacobians"] = {}
        for part in system.parts:
            jacobian = _draw_jacobian(part, restorable[part.name], random, paced)
            settings["jacobians"][part.name] = jacobian["source"]
            if "factor" in jacobian:
                settings["factor"] = jacobian.pop("factor")
            tables["subsystems"][part.name]["jacobian"] = jacobian
        return {"method": "model", "alpha": float(random.choice([1.0, 1.0, 0.5, 0.0]))}
    return {"method": "none"}


def _draw_jacobian(part: Part, restorable: bool, random: Random, paced: bool) -> dict[str, Any]:
    sources = ["identify"]
    if restorable:
        sources += ["probe", "probe"]
    if part.linear is not None:
        sources += ["given", "given"] + (["solver"] if restorable else [])
    source = str(random.choice(sources))
    jacobian: dict[str, Any] = {"source": source}
    if source in ("probe", "solver") and not paced:
        jacobian["refresh"] = [0, 50, "always"][int(random.integers(3))]
    if source == "identify" and random.random() < 0.3:
        jacobian["dither"] = log_uniform(random, 1e-4, 1e-2)
    if source == "given" and part.linear is not None:
        factor = _draw_factor(random)
        m = part.linear
        C, D = factor * m.C, factor * m.D
        jacobian |= {"A": m.A.tolist(), "B": m.B.tolist(), "C": C.tolist(), "D": D.tolist()}
        jacobian["factor"] = factor
    return jacobian


def _draw_factor(random: Random) -> float:
    """Factor on the response assumed by a correction: 1 is right."""
    if random.random() < 0.55:
        return 1.0
    choice = int(random.integers(4))
    return [0.0, -1.0, 2.0, log_uniform(random, 0.1, 10.0)][choice]
