"""A test of the suspension: a kerb of 5 cm."""

from hilrt import Port, Sequence


class Kerb(Sequence):
    """Drive over a kerb; the body must not swing too far, nor for too long."""

    reads = ("body.x",)
    drives = (Port("road", "m", max=0.1),)

    async def run(self, bench):
        bench.expect("swing", always="body.x < 0.080")  # m
        await bench.wait(0.2)  # s
        async with bench.recording("kerb"):
            await bench.step("road", 0.05)
            still = await bench.until("abs(body.x - 0.05) < 0.005", timeout=5.0, stays=0.5)
        bench.measure("settling time", still.elapsed, unit="s", max=1.5)
