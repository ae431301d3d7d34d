"""A sequence that pushes what it watches, as a stimulus would do."""

from hilrt import Port, Sequence


class Push(Sequence):
    """Holds 0, then `force` from `at` [s] on to the session's end."""

    reads = ("mass.x", "wall.v")
    drives = (Port("push", "N"),)

    def __init__(self, force, at):
        self.force, self.at = force, at

    async def run(self, bench):
        await bench.step("push", to=0.0)
        await bench.wait(self.at)
        await bench.step("push", to=self.force)
        await bench.until("wall.v > 1e9", timeout=1000.0)
