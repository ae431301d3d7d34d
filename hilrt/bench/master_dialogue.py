"""Messages between a gateway and its master: demands in, measurements and notices out."""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable

from hilrt.bench.bus_traffic import BusTraffic
from hilrt.bench.guard_states import NS, GuardState, Level, Notice
from hilrt.bench.guardian import Guardian
from hilrt.can.receiver import Receiver
from hilrt.errors import ProtocolError
from hilrt.peers import wire
from hilrt.peers.peer import Peer
from hilrt.timing.early_reception import LOOK_NS
from hilrt.wording import kind_of

#: Time in which the bench must have sent all its messages before the first exchange, s.
FIRST_FRAMES_TIMEOUT = 10.0
#: Shortest interval between replies to late set-points, ns.
REPLY_AGAIN_NS = 20_000_000
#: Number of measurements between two reports of the counters.
COUNTERS_EVERY = 20
#: Shortest interval between lines of the same kind in the process's own log, s.
QUIET_S = 10.0
#: No measurements are sent to a master silent for longer than this, ns: they would be outdated when
#: it reads them, and delay important messages.
MASTER_READS_NS = NS // 2


class MasterDialogue:
    """Exchange of messages between the master and the guardian.

    Parameters
    ----------
    peer : Peer
        Connected and accepted by the master.
    guardian : Guardian
    n_inputs, n_outputs : int
        Numbers of the bench's inputs and outputs.
    clock : callable
        Monotonic clock, ns.

    Attributes
    ----------
    heard_at : int
        Time of the newest message from the master, ns.
    ends : bool
        Whether the master has requested the end, or has failed.
    stop_asked : bool
        Whether the master waits for a confirmation.
    malformed : int
        Number of invalid messages from the master.
    """

    def __init__(
        self,
        peer: Peer,
        guardian: Guardian,
        n_inputs: int,
        n_outputs: int,
        clock: Callable[[], int],
    ) -> None:
        self.peer = peer
        self._guardian = guardian
        self._n_inputs = n_inputs
        self._clock = clock
        self.heard_at = clock()
        guardian.master_seen(self.heard_at)
        self.ends = self.stop_asked = False
        self.malformed = 0
        self._initialize_by: int | None = None
        # Same as wire.pack, but without creating an array for so few numbers.
        self._pack_y = struct.Struct(f"<{n_outputs}d").pack
        self._pack_u = struct.Struct(f"<{n_inputs}d").pack
        self._seq = 0
        self._kind: tuple[str, ...] = ()
        self._written, self._quiet_until, self._suppressed = "", 0.0, 0
        self._replied_at = 0

    # ---- from the master -------------------------------------------------------------------

    def receive(self, traffic: BusTraffic) -> None:
        """Handle the master's messages; count malformed ones, and report the first."""
        for message in self.peer.receive(LOOK_NS):
            self.heard_at = self._clock()
            self._guardian.master_seen(self.heard_at)
            try:
                self._handle(message, traffic)
            except ProtocolError as error:
                self.malformed += 1
                if self.malformed == 1:
                    text = f"a message from the master is dropped: {error}"
                    self.event("warning", "malformed", text)

    def _handle(self, message: wire.FromMaster, traffic: BusTraffic) -> None:
        guardian, now = self._guardian, self._clock()
        match message:
            case wire.SetPoints():
                self._set_points(message, now)
            case wire.Arm():
                u0 = wire.unpack(message.u0, self._n_inputs)
                guardian.arm(now, u0.tolist(), traffic.view(now))
            case wire.Safe():
                guardian.secure(now, "safe", message.reason, fault=False)
            case wire.Stop():
                self.stop_asked = self.ends = True
                guardian.secure(now, "stop", message.reason, fault=False)
            case wire.Error():
                self.ends = True
                guardian.secure(now, "master_error", f"the master gave up: {message.text}")
            case wire.Initialize():
                self._initialize_by = now + int(FIRST_FRAMES_TIMEOUT * NS)

    def _set_points(self, message: wire.SetPoints, now: int) -> None:
        coefficients = wire.unpack(message.coefficients, -1, self._n_inputs)
        if len(coefficients) == 0:
            raise ProtocolError("set-points without coefficients")
        # The value at t is the first Taylor coefficient: the master has already shifted the
        # polynomial by the actuation delay.
        if self._guardian.demand(now, message.tick, coefficients[0].tolist()):
            return
        if self._guardian.state is GuardState.SECURED and now - self._replied_at > REPLY_AGAIN_NS:
            # The first reply may have been lost: report again that the bench is secured.
            self._replied_at = now
            self._guardian.secure(now, "late", "late set-points")

    # ---- to the master ---------------------------------------------------------------------

    def event(self, level: Level, cause: str, text: str, value: float | None = None) -> None:
        """Send the master an event to log; `value` as in `wire.Event`."""
        self.peer.send(wire.Event(level=level, cause=cause, text=text, value=value))

    def measurements(
        self, now: int, traffic: BusTraffic, counters: Callable[[], dict[str, int]]
    ) -> None:
        """Send the newest values of the bench, unless the master has been silent too long."""
        if now - self.heard_at >= MASTER_READS_NS:
            return
        receiver = traffic.receiver
        self.peer.send(
            wire.Measurements(
                seq=self._seq,
                tick=self._guardian.tick,
                y=self._pack_y(*receiver.y),
                t_valid_ns=receiver.t_valid_ns,
                realised=self._pack_u(*traffic.realised),
                # The counters are totals, and the master decodes them on its critical path: they
                # are not sent every time.
                counters=counters() if self._seq % COUNTERS_EVERY == 0 else {},
            )
        )
        self._seq += 1

    def reply(self, now: int, receiver: Receiver) -> None:
        """Reply to pending requests of the master at `now` [ns], and forward the notices."""
        if self._initialize_by is not None:
            self._initialized(now, receiver)
        for notice in self._guardian.notices:
            self._pass_on(notice)
        self._guardian.notices.clear()

    def _initialized(self, now: int, receiver: Receiver) -> None:
        assert self._initialize_by is not None
        if receiver.complete():
            self._initialize_by = None
            y = self._pack_y(*receiver.y)
            self.peer.send(wire.Initialized(y=y, t_valid_ns=receiver.t_valid_ns))
        elif now > self._initialize_by:
            self._initialize_by = None
            self.peer.send(wire.Error(text=_missing_text(receiver)))

    def _pass_on(self, notice: Notice) -> None:
        self._write_down(notice)
        message: wire.Message
        match notice.kind:
            case "armed":
                message = wire.Armed()
            case "secured":
                message = wire.Secured(reason=notice.text, complete=notice.complete)
            case "failed":
                message = wire.Error(text=notice.text)
            case _:
                message = wire.Event(
                    level=notice.level, cause=notice.cause, text=notice.text, value=notice.value
                )
        self.peer.send(message)

    def _write_down(self, notice: Notice) -> None:
        """Write a notice to the process's own log too: the master may be gone."""
        text = notice.text
        if notice.kind == "secured":
            text = f"bench secured{'' if notice.complete else ', but not completely'}: {text}"
        if notice.level == "info" and notice.kind not in ("secured", "failed"):
            return
        # Notices may repeat while the master is late, or at every stall of a busy processor.
        kind, now = kind_of(notice.level, notice.cause, "", text), time.monotonic()
        if kind == self._kind and now < self._quiet_until:
            self._suppressed += text != self._written
            return
        more = f" ({self._suppressed} more like the previous line)" if self._suppressed else ""
        self._kind, self._written, self._quiet_until, self._suppressed = (
            kind,
            text,
            now + QUIET_S,
            0,
        )
        print(f"{time.strftime('%H:%M:%S')} {text}{more}", file=sys.stderr, flush=True)


def _missing_text(receiver: Receiver) -> str:
    """Text about messages missing at the first exchange, with a remedy."""
    messages, forms = receiver.missing(), receiver.missing_forms()
    remedies = []
    if messages:
        remedies.append("check that the bench is on, the bus and its bit rate, and the database")
    if forms:
        remedies.append(
            "make the bench send such frames, or remove their outputs, and compare the"
            " multiplexer's values with the database"
        )
    missing = ", ".join([*messages, *forms])
    return f"not received within {FIRST_FRAMES_TIMEOUT:g} s: {missing}; {'; '.join(remedies)}"
