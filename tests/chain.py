"""A chain of masses, each with the spring to its right neighbour; the last one's is on a wall."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from hilrt import Group, InputPolynomial, Port, Sample, SessionBuilder, Solver
from hilrt.config.session_file import SessionFile
from hilrt.solver import Floats


class Link(Solver):
    """A mass that its left neighbour's spring pushes, with the spring to the right."""

    inputs = (Port("push", "N"), Port("x_right", "m"), Port("v_right", "m/s"))
    outputs = (
        Port("force", "N", feedthrough=("x_right", "v_right")),
        Port("x", "m"),
        Port("v", "m/s"),
    )

    def __init__(
        self, m: float = 1.0, k: float = 1e3, d: float = 1.0, x: float = 0.0, v: float = 0.0
    ) -> None:
        self.m, self.k, self.d, self.x, self.v = m, k, d, x, v

    def _sample(self, u: Floats) -> Sample:
        force = self.k * (self.x - u[1]) + self.d * (self.v - u[2])
        return Sample(np.array([force, self.x, self.v]))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return self._sample(u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        now = u(t)
        self.v += h * (now[0] - self._sample(now).y[0]) / self.m
        self.x += h * self.v
        return self._sample(u(t + h))

    def save_state(self) -> tuple[float, float]:
        return self.x, self.v

    def restore_state(self, state: tuple[float, float]) -> None:
        self.x, self.v = state


class Links(Group):
    """The masses of a chain, all in one call."""

    def __init__(self, members: Mapping[str, Link]) -> None:
        super().__init__(members)
        rows = [(one.m, one.k, one.d, one.x, one.v) for one in members.values()]
        self.m, self.k, self.d, self.x, self.v = np.array(rows).T

    def _outputs(self, u: Floats) -> Floats:
        return self.k * (self.x - u[:, 1]) + self.d * (self.v - u[:, 2])

    def _sample(self, u: Floats) -> Sample:
        return Sample(np.stack([self._outputs(u), self.x, self.v], axis=1).ravel())

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return self._sample(u0.reshape(-1, 3))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        now = u(t).reshape(-1, 3)
        self.v = self.v + h * (now[:, 0] - self._outputs(now)) / self.m
        self.x = self.x + h * self.v
        return self._sample(u(t + h).reshape(-1, 3))

    def save_state(self) -> list[tuple[float, float]]:
        return list(zip(self.x.tolist(), self.v.tolist(), strict=True))

    def restore_state(self, state: list[tuple[float, float]]) -> None:
        self.x, self.v = np.array(state).T


def parameters(i: int) -> str:
    """Those of a mass, as a table of TOML: all different, so that no two can be mixed up."""
    return f"{{ m = {1.0 + 0.01 * i}, x = {0.01 * (i % 7)}, v = {0.1 * (i % 3)} }}"


def couplings(names: list[str], bonds: bool = True) -> str:
    """Connections and bonds of a chain of subsystems."""
    text = []
    for left, right in itertools.pairwise(names):
        for source, target in (
            (f"{left}.force", f"{right}.push"),
            (f"{right}.x", f"{left}.x_right"),
            (f"{right}.v", f"{left}.v_right"),
        ):
            text.append(f'[[connections]]\nfrom = "{source}"\nto = "{target}"\n')
        if bonds:
            text.append(
                f'[[bonds]]\nname = "spring_{left}"\neffort = "{left}.force"\nflow = "{right}.v"\n'
                'correction = { method = "energy", mu = 0.5, cap = 1.0 }\n'
            )
    return "".join(text)


def head(steps: int = 50) -> str:
    """First tables of a session of that many steps of 1 ms."""
    return (
        f'[session]\nname = "chain"\nduration = {steps * 1e-3}\npace = "asap"\n'
        "[master]\nstep = 1e-3\nextrapolation = { order = 1 }\n"
    )


def chain(n: int, steps: int = 50, bonds: bool = True) -> str:
    """Session file of `n` masses, each an in-process subsystem ``m0`` … of its own."""
    names = [f"m{i}" for i in range(n)]
    text = [head(steps)]
    for i, name in enumerate(names):
        text.append(
            f'[subsystems.{name}]\nadapter = "inprocess"\nmodel = "tests.chain:Link"\n'
            f"params = {parameters(i)}\n"
        )
    text.append("[subsystems.m0.inputs.push]\nstart = 0.0\n")
    for port in ("x_right", "v_right"):
        text.append(f"[subsystems.{names[-1]}.inputs.{port}]\nstart = 0.0\n")
    return "".join(text) + couplings(names, bonds)


def built(n: int) -> SessionFile:
    """`group` with bonds, written in Python."""
    names = [f"m{i}" for i in range(n)]
    each = {
        "m": [1.0 + 0.01 * i for i in range(n)],
        "x": [0.01 * (i % 7) for i in range(n)],
        "v": [0.1 * (i % 3) for i in range(n)],
    }
    builder = SessionBuilder("chain", duration=0.05, step=1e-3, pace="asap")
    builder.set("master", extrapolation={"order": 1})
    still = {"m0.push": {"start": 0.0}}
    still |= {f"{names[-1]}.{port}": {"start": 0.0} for port in ("x_right", "v_right")}
    builder.group("chain", "tests.chain:Link", n, prefix="m", each=each, inputs=still)
    for left, right in itertools.pairwise(names):
        builder.connect(f"{left}.force", f"{right}.push")
        builder.connect(f"{right}.x", f"{left}.x_right").connect(f"{right}.v", f"{left}.v_right")
        bond = (f"spring_{left}", f"{left}.force", f"{right}.v")
        builder.bond(*bond, method="energy", mu=0.5, cap=1.0)
    return builder.build()


def group(n: int, steps: int = 50, bonds: bool = True) -> str:
    """The same chain as one group."""
    names = [f"m{i}" for i in range(n)]
    each = ", ".join(
        f"{key} = {values}"
        for key, values in (
            ("m", [1.0 + 0.01 * i for i in range(n)]),
            ("x", [0.01 * (i % 7) for i in range(n)]),
            ("v", [0.1 * (i % 3) for i in range(n)]),
        )
    )
    return (
        f"{head(steps)}[groups.chain]\n"
        f'model = "tests.chain:Link"\nmembers = {n}\nprefix = "m"\neach = {{ {each} }}\n'
        '[groups.chain.inputs]\n"m0.push" = { start = 0.0 }\n'
        f'"{names[-1]}.x_right" = {{ start = 0.0 }}\n"{names[-1]}.v_right" = {{ start = 0.0 }}\n'
    ) + couplings(names, bonds)
