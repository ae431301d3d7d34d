"""A plant, and a sequence that fails as it is told."""

import numpy as np

from hilrt import Port, Sample, Sequence, Solver


class Plant(Solver):
    inputs = (Port("pedal", "%"),)
    outputs = (Port("speed", "rad/s"),)

    def __init__(self):
        self.speed = 0.0

    def initialize(self, t0, u0):
        return Sample(np.array([self.speed]))

    def advance(self, t, h, u):
        self.speed += h * (u(t)[0] - self.speed) / 0.1
        return Sample(np.array([self.speed]))


class TipIn(Sequence):
    drives = (Port("pedal", "%"),)

    def __init__(
        self,
        fault="",
        reads="plant.speed",
        most=0.4,
        always="",
        until="plant.speed > 50",
        question="",
    ):
        self.fault, self.reads, self.most, self.always = fault, (reads,), most, always
        self.until, self.question = until, question

    async def run(self, bench):
        if self.question:
            await bench.prompt(self.question, ("U = 400 V", "no"))
        if self.always:
            bench.expect("no overspeed", always=self.always)
        await bench.ramp("pedal", to=20.0, rate=200.0)
        async with bench.recording("tip-in"):
            await bench.step("pedal", to=60.0)
            rise = await bench.until(self.until, timeout=2.0)
        bench.measure("rise time", rise.elapsed, unit="s", max=self.most)
        if self.fault == "raise":
            raise ValueError("gear")
        while self.fault == "hang":
            pass
        if self.fault == "time-out":
            await bench.until(lambda: False, timeout=0.1)
        await bench.wait(0.1)
