"""What is done with benches before and after the ticks: sequences, and matching the two sides.

Each step moves set-points through the gateway's own ramps and limits (`Link.arm`) and waits for a
condition on a measured value. Alarms that end sessions act here, too, and so does everything the
gateway guards; whatever fails ends in the safe profile, as anywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hilrt.config.structs import Match, Step
from hilrt.config.units import conversion
from hilrt.errors import HilrtError, PeerLost, SessionFault
from hilrt.link import Link
from hilrt.solver import Floats
from hilrt.timing.monotonic import monotonic_ns

if TYPE_CHECKING:
    from hilrt.reliability.alarms import AlarmNames
    from hilrt.reliability.ranges import Ranges

#: How often measured values are looked at, s.
LOOK_S = 0.01


class CutShort(HilrtError):
    """The safe profile is requested instead of the rest of the sequence."""


class Procedure:
    """Moves benches and waits for them while no ticks run.

    Parameters
    ----------
    links : sequence of Link
        All of the session's.
    ranges : Ranges
        Of the outputs.
    alarms : AlarmNames
    y : ndarray, shape (ny,)
        Outputs as last known; those of the benches are kept up to date.
    timeout : float
        How long one bench may take for one move, s.
    tell : callable
        Told what is going on.

    Attributes
    ----------
    unwanted : callable
        Whether an end has been requested meanwhile: `CutShort` is raised at the next look.
    calculate : callable
        Puts the calculated channels into outputs, shape (ny,).
    """

    def __init__(
        self,
        links: Sequence[Link],
        ranges: Ranges,
        alarms: AlarmNames,
        y: Floats,
        timeout: float,
        tell: Callable[[str], None],
    ) -> None:
        self.links, self.ranges, self.alarms = links, ranges, alarms
        self.network = ranges.network
        self.y, self.timeout, self.tell = y.copy(), timeout, tell
        self.benches = [s for s, link in enumerate(links) if link.physical]
        self.unwanted: Callable[[], bool] = lambda: False
        self.calculate: Callable[[Floats], None] = lambda y: None

    def measure(self) -> Floats:
        """Newest outputs, shape (ny,); `SessionFault` when one of them or a bench ends the session.

        Alarms judge what was measured, whatever its declared range.
        """
        if self.unwanted():
            raise CutShort("cut short")
        for s in self.benches:
            link = self.links[s]
            link.receive()  # raises when the bench has been lost, or secured by its gateway
            if link.latest is not None:
                self.y[self.network.outputs.slices[s]] = link.latest
        self.calculate(self.y)
        if reasons := self.alarms.outside(dict(enumerate(self.y.tolist()))):
            raise SessionFault(f"alarm: {', '.join(reasons)}")
        if reasons := self.ranges.brings_down(self.y):
            raise SessionFault("; ".join(reasons))
        return self.y

    async def move(self, u: Floats, only: Sequence[int] | None = None) -> None:
        """Bring the inputs of benches (all, or those numbers) to `u`, shape (nu,), one by one."""
        for s in self.benches if only is None else only:
            await self._arm([s], u)

    async def hold(self, u: Floats) -> None:
        """After the last tick: let all benches wait at `u`, shape (nu,), for what comes.

        All at once: a gateway that is fed by ticks takes their end for that of the master.
        """
        await self._arm(self.benches, u)

    async def _arm(self, benches: Sequence[int], u: Floats) -> None:
        """Bring the inputs of benches to `u` at once; alarms and all benches count meanwhile."""
        arming = {
            asyncio.ensure_future(self.links[s].arm(u[self.network.inputs.slices[s]])): s
            for s in benches
        }
        try:
            async with asyncio.timeout(self.timeout):
                pending = set(arming)
                while pending:
                    self.measure()
                    done, pending = await asyncio.wait(pending, timeout=LOOK_S)
                    for task in done:
                        task.result()  # raises what went wrong
        except TimeoutError:
            late = [s for task, s in arming.items() if not task.done()] or benches
            raise PeerLost(
                self.links[late[0]].name,
                f"could not be armed within {self.timeout:g} s (master.arm_timeout)",
            ) from None
        finally:
            for task in arming:
                task.cancel()
            await asyncio.gather(*arming, return_exceptions=True)
        self.measure()

    async def run(self, steps: Sequence[Step], u: Floats, kind: str) -> None:
        """Run a sequence from the set-points `u`, shape (nu,); `kind` is "start" or "stop"."""
        u = u.copy()
        for i, step in enumerate(steps):
            self.tell(f"{kind} step {i}" + (f": {step.name}" if step.name else ""))
            moved = set()
            for name, value in step.ramp.items():
                part, _ = self.network.inputs.ports[name]
                u[part] = value
                moved.add(int(self.network.inputs.owner[part.start]))
            await self.move(u, sorted(moved))
            if step.wait is not None:
                low = float("-inf") if step.min is None else step.min
                high = float("inf") if step.max is None else step.max
                where = f"{kind} step {i} {step.name}".strip()
                await self._until(where, step.wait, low, high, step.hold, step.timeout)

    async def match(self, matches: Sequence[Match]) -> None:
        """Wait until each measured value is where the virtual side is."""
        for match in matches:
            target = match.to
            if isinstance(target, str):
                part, port = self.network.outputs.ports[target]
                _, measured = self.network.outputs.ports[match.signal]
                factor, offset = conversion(port.unit, measured.unit)
                target = factor * float(self.y[part.start]) + offset
            self.tell(f"bringing {match.signal} to {target:g}")
            low, high = target - match.tolerance, target + match.tolerance
            await self._until("match", match.signal, low, high, match.hold, match.timeout)

    async def _until(
        self, where: str, signal: str, low: float, high: float, hold: float, timeout: float
    ) -> None:
        """Wait until `signal` has been within `low` and `high` for `hold` [s].

        A value that is not used for its declared range is within nothing.
        """
        part, _ = self.network.outputs.ports[signal]
        begun = inside_since = monotonic_ns()
        while True:
            value, now = float(self.measure()[part.start]), monotonic_ns()
            withheld = self.ranges.withheld(self.y)[part.start]
            if withheld or not low <= value <= high:
                inside_since = now
            elif now - inside_since >= hold * 1e9:
                return
            if now - begun > timeout * 1e9:
                raise SessionFault(
                    f"{where}: {signal} is {value:g}, and was not from {low:g} to {high:g} for "
                    f"{hold:g} s within {timeout:g} s"
                )
            await asyncio.sleep(LOOK_S)
