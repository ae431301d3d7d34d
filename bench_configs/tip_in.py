"""Tip-in and tip-out of an engine that a dynamometer holds at a speed."""

from hilrt import Port, Sequence


class TipIn(Sequence):
    """The torque must rise and fall again fast enough; limits are parameters.

    The pedal moves as fast as a foot does, and slower than the bench's `max_rate`: a step would be
    limited, and flagged.
    """

    reads = ("engine.speed", "engine.torque")
    drives = (Port("speed_demand", "rad/s"), Port("pedal", "%"))

    def __init__(self, speed=200.0, rise_time=0.5, fall_time=0.5, pedal_rate=400.0):
        self.speed, self.rise_time, self.fall_time = speed, rise_time, fall_time
        self.pedal_rate = pedal_rate  # %/s

    async def run(self, bench):
        await bench.ramp("speed_demand", to=self.speed, rate=200.0)
        await bench.ramp("pedal", to=10.0, rate=50.0)
        await bench.until(f"abs(engine.speed - {self.speed}) < 2", timeout=10.0, stays=0.5)

        async with bench.recording("tip-in"):
            _, rise = await bench.together(
                bench.ramp("pedal", to=80.0, rate=self.pedal_rate),
                bench.until("engine.torque > 150", timeout=2.0),
            )
            await bench.wait(0.5)
        bench.measure("rise time", rise.elapsed, unit="s", max=self.rise_time)

        async with bench.recording("tip-out"):
            _, fall = await bench.together(
                bench.ramp("pedal", to=0.0, rate=self.pedal_rate),
                bench.until("engine.torque < 0", timeout=2.0),
            )
        bench.measure("fall time", fall.elapsed, unit="s", max=self.fall_time)

        await bench.ramp("speed_demand", to=0.0, rate=200.0)
        await bench.until("engine.speed < 5", timeout=10.0)
