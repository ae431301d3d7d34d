"""The emulated engine bench as a solver: its control cycles of 1 ms, its shaft, its noise."""

import numpy as np

from hilrt import InputPolynomial, Sample, Solver
from hilrt.models.dynamometer import CYCLE_S, DynoMode
from hilrt.models.engine_bench import EngineBench
from hilrt.models.engine_on_dyno import EngineOnDyno

#: Cycles until the bench has been enabled.
STARTING = 300


class EngineWithoutBus(Solver):
    """Takes its demands in every cycle, and measures at the end of a step."""

    inputs, outputs = EngineOnDyno.inputs, EngineOnDyno.outputs

    def __init__(self) -> None:
        self.bench, self._cycle = EngineBench(), 0

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        for _ in range(STARTING):
            self._advance(u0)
        return self._sample()

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        for i in range(1, round(h / CYCLE_S) + 1):
            self._advance(u(t + i * CYCLE_S))
        return self._sample()

    def _advance(self, demands: np.ndarray) -> None:
        self._cycle += 1
        speed, pedal = demands.tolist()
        now, alive = self._cycle * CYCLE_S, self._cycle % 256
        dyno = {"Speed": speed, "Torque": 0.0, "Mode": float(DynoMode.SPEED), "Enable": 1.0}
        self.bench.receive("DynoDemand", {**dyno, "Alive": alive}, now)
        self.bench.receive("EngineDemand", {"Pedal": pedal, "Alive": alive}, now)
        self.bench.advance(now)

    def _sample(self) -> Sample:
        values = self.bench.measure("EngineFast")
        return Sample(np.array([values["ShaftTorque"], values["ShaftSpeed"]]))
