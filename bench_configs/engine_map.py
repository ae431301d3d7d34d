"""Engine map: mean torque in steady state over a grid of speeds and pedals."""

from hilrt import Port, Sequence


class EngineMap(Sequence):
    """Each point: bring speed and pedal there, wait until the torque has settled, take the mean.

    Settled: over `window` [s] the torque moves by less than `band` [N m] between its two halves.
    """

    reads = ("engine.speed", "engine.torque")
    drives = (Port("speed_demand", "rad/s"), Port("pedal", "%"))

    def __init__(
        self,
        speeds=(120.0, 200.0, 280.0, 360.0, 440.0),
        pedals=(20.0, 40.0, 60.0, 80.0, 100.0),
        window=0.4,
        band=1.0,
    ):
        self.speeds, self.pedals, self.window, self.band = speeds, pedals, window, band

    async def run(self, bench):
        for speed in self.speeds:
            await bench.ramp("speed_demand", to=speed, rate=300.0)
            for pedal in self.pedals:
                async with bench.recording(f"{speed:g} rad/s, {pedal:g} %"):
                    await bench.ramp("pedal", to=pedal, rate=100.0)
                    await self.settled(bench, speed)
                    torque = await self.mean(bench, "engine.torque")
                at = {"speed": (speed, "rad/s"), "pedal": (pedal, "%")}
                bench.measure("torque", torque, unit="N*m", at=at)
            await bench.ramp("pedal", to=0.0, rate=100.0)
        await bench.ramp("speed_demand", to=0.0, rate=300.0)
        await bench.until("engine.speed < 5", timeout=10.0)

    async def settled(self, bench, speed):
        """Wait until speed and torque stay where they are."""
        half = self.window / 2
        recent = f"mean(engine.torque, {half})"
        await bench.until(
            f"abs({recent} - delay({recent}, {half})) < {self.band} "
            f"and abs(mean(engine.speed, {half}) - {speed}) < 1",
            timeout=15.0,
            stays=self.window,
        )

    async def mean(self, bench, signal):
        """Mean of the samples of a window."""
        total, samples, began = 0.0, 0, bench.now
        while bench.now - began < self.window:
            total, samples = total + bench.read(signal), samples + 1
            await bench.wait(0.001)
        return total / samples
