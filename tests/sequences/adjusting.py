"""Sequences that begin and end faults, and change a parameter."""

from hilrt import Sequence


class Faulty(Sequence):
    """Two faults of a sensor, one after the other, begun and ended between points."""

    reads = ("body.x",)

    async def run(self, bench):
        await bench.wait(0.1)
        bench.inject("offset")
        await bench.wait(0.1)
        bench.inject("gain")
        bench.clear("offset")
        await bench.wait(0.1)
        bench.set("faults.gain", None)
        bench.measure("body.x with the gain", bench.read("body.x"), unit="m")
        await bench.wait(0.1)


class Stiffening(Sequence):
    """A stiffness that is changed, and one that is refused."""

    async def run(self, bench):
        await bench.wait(0.29)
        bench.set("parameters.body.stiffness", 160.0)
        await bench.wait(0.2)
        bench.set("parameters.body.stiffness", 1e4)
        await bench.wait(0.5)
