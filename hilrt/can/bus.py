"""The CAN bus: opening it from a table, waiting for frames, receiving and sending them."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import can
from can.interfaces.udp_multicast import UdpMulticastBus
from cantools.database.can import Message

from hilrt.can import j1939_transport
from hilrt.can.bus_keys import unknown_keys
from hilrt.can.frame import BUS_ERRORS, Frame, controller_off
from hilrt.can.id_table import IdTable, is_j1939
from hilrt.can.socketcan import SocketCanFrames, restart_controller
from hilrt.can.udp_multicast import UdpFrames, from_message, open_can, to_message
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError

#: Maximum frames read per wake-up, so that a flood of frames does not delay the guardian.
DRAIN_LIMIT = 256
#: Time limit for sending a frame, s.
SEND_TIMEOUT = 0.001
#: Receive buffer requested from the kernel: the default one silently loses frames in bursts.
RECEIVE_BUFFER_BYTES = 4 << 20
#: Consecutive failed reads after which an interface counts as gone.
GONE_AFTER = 5
#: Time limit for a bus that is still being opened at the end, s.
CLOSE_TIMEOUT = 5.0
#: Socket option that may exceed the system's limit, for privileged processes.
_SO_RCVBUFFORCE = 33


class Direct(Protocol):
    """Reading and sending without python-can, for the most common interfaces."""

    errors: int
    #: Whether the interface is down or gone, as of the latest read or write.
    down: bool
    #: Whether it is gone, so that this socket will not recover.
    gone: bool

    def drain(self, limit: int) -> list[Frame]:
        """Receive at most `limit` frames; never blocks."""
        ...

    def send(self, frame: Frame) -> None:
        """Send without waiting; `OSError` if that fails."""
        ...

    def close(self) -> None:
        """Release its resources; the bus stays open."""
        ...


class CanBus:
    """A python-can bus with a descriptor to wait for and a method to read all frames.

    `fileno` is readable when `drain` would return frames: the bus's own descriptor, or that of a
    reader thread for interfaces without one.

    Parameters
    ----------
    bus : can.BusABC
    direct : callable, optional
        Creates a replacement for reading and sending, from a file descriptor.
    reopen : callable, optional
        Reopens the bus after its interface was gone.
    interface : str
        python-can's name of the interface.
    channel : str, optional
        For SocketCAN: the interface's name in the system.
    """

    def __init__(
        self,
        bus: can.BusABC,
        direct: Callable[[int], Direct] | None = None,
        reopen: Callable[[], can.BusABC] | None = None,
        interface: str = "",
        channel: str | None = None,
    ) -> None:
        self._bus = bus
        self._interface = interface
        self._channel = channel
        self._make_direct = direct
        self._direct = direct(bus.fileno()) if direct else None
        self._reopen_bus = reopen
        self._failures = 0  # consecutive failed reads
        self._errors = 0
        self._queue: deque[Frame] = deque()
        self._thread: threading.Thread | None = None
        self._opening: threading.Thread | None = None
        self._reopened: can.BusABC | None = None
        self._reopening = False  # the bus was closed in order to be reopened
        self._closing = threading.Event()
        try:
            self._fd = bus.fileno()
        except NotImplementedError:
            self._fd = -1
        if self._fd >= 0:
            if direct is None:
                self._fd = os.dup(self._fd)  # it outlives the bus, see `revive`
            _enlarge_buffer(self._fd)
        else:
            self._wake, self._signal = socket.socketpair()
            self._wake.setblocking(False)
            self._signal.setblocking(False)
            self._fd = self._wake.fileno()
            self._thread = threading.Thread(target=self._read, name="can reader", daemon=True)
            self._thread.start()

    def fileno(self) -> int:
        """File descriptor that is readable when there are frames."""
        return self._fd

    @property
    def system_clock(self) -> bool:
        """Whether the frames' times are those of this machine's clock, not a device's."""
        return self._direct is not None

    @property
    def stamps(self) -> str:
        """Origin of received frames' time stamps: ``hardware``, ``kernel``; empty: unknown.

        python-can's devices do not report whether they have their own clock.
        """
        return getattr(self._direct, "stamps", "kernel") if self._direct is not None else ""

    @property
    def down(self) -> bool:
        """Whether the interface is down or gone, as of the latest read or write."""
        return self._direct.down if self._direct is not None else self._failures >= GONE_AFTER

    def revive(self) -> bool:
        """Reopen the bus if its interface was gone; return whether that succeeded.

        The file descriptor keeps its number, so that waiting for it continues.
        """
        direct, make, reopen = self._direct, self._make_direct, self._reopen_bus
        if direct is None and reopen is not None and self.down:
            return self._reopen(reopen)
        if direct is None or not direct.gone or make is None or reopen is None:
            return False
        try:
            reopened = reopen()
        except (can.CanError, OSError):
            return False
        os.dup2(reopened.fileno(), self._fd)
        reopened.shutdown()
        self._errors += direct.errors
        direct.close()
        self._direct = make(self._fd)
        _enlarge_buffer(self._fd)
        return True

    def bus_off(self) -> bool | None:
        """Whether the controller is bus-off, according to its driver; None if not reported."""
        if self._direct is not None or self._reopening:
            return None
        return controller_off(self._interface, self._bus)

    def restart(self) -> bool:
        """Restart a bus-off controller; False while that is in progress, until a later call.

        Raises
        ------
        OSError
            If the system refuses.
        """
        if self._direct is None and self._reopen_bus is not None:
            return self._reopen(self._reopen_bus)  # reopening is supported by every driver
        if self._interface != "socketcan" or self._channel is None:
            raise OSError(errno.EOPNOTSUPP, "this interface has no controller to restart")
        restart_controller(self._channel)
        return True

    def _reopen(self, reopen: Callable[[], can.BusABC]) -> bool:
        """Reopen the bus in a thread: some interfaces take seconds."""
        self._reopening = True
        if self._opening is None:

            def open_again(old: can.BusABC) -> None:
                with suppress(Exception):  # ignore errors of the old bus
                    old.shutdown()
                with suppress(Exception):  # not back yet
                    self._reopened = reopen()

            self._opening = threading.Thread(target=open_again, args=(self._bus,), daemon=True)
            self._opening.start()
        if self._opening.is_alive():
            return False
        self._opening, reopened, self._reopened = None, self._reopened, None
        if reopened is None:
            return False
        if self._thread is None:
            os.dup2(reopened.fileno(), self._fd)
        self._bus, self._failures, self._reopening = reopened, 0, False
        return True

    @property
    def errors(self) -> int:
        """Number of failed reads, and of datagrams that were not frames."""
        return self._errors + (self._direct.errors if self._direct else 0)

    def drain(self) -> list[Frame]:
        """Frames that have arrived, at most `DRAIN_LIMIT`; never blocks."""
        if self._direct is not None:
            return self._direct.drain(DRAIN_LIMIT)
        frames: list[Frame] = []
        if self._thread is not None:
            with suppress(BlockingIOError):
                self._wake.recv(DRAIN_LIMIT)
            while self._queue and len(frames) < DRAIN_LIMIT:
                frames.append(self._queue.popleft())
            if self._queue:
                self._notify()
            return frames
        for _ in range(0 if self._reopening else DRAIN_LIMIT):
            try:
                frame = self._bus.recv(timeout=0)
            except Exception as error:  # drivers may raise any exception
                # The remaining datagrams are read at the next call.
                self._failed(error)
                break
            self._failures = 0
            if frame is None:
                break
            frames.append(from_message(frame, self._interface))
        return frames

    def send(self, frame: Frame) -> None:
        """Send a frame; raise `can.CanError` or `OSError` if that fails."""
        if self._direct is not None:
            self._direct.send(frame)
        elif self._reopening:
            raise OSError(errno.ENODEV, "the interface is missing")
        else:
            message = to_message(frame)
            try:
                self._bus.send(message, timeout=SEND_TIMEOUT)
            except BUS_ERRORS:
                raise
            except Exception as error:  # drivers may raise any exception
                raise can.CanOperationError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Release the bus."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(1.0)
            self._wake.close()
            self._signal.close()
        if self._opening is not None:
            self._opening.join(CLOSE_TIMEOUT)
        if self._direct is not None:
            self._direct.close()
        elif self._thread is None:
            os.close(self._fd)
        with suppress(can.CanError, OSError):  # the interface may be gone
            (self._reopened or self._bus).shutdown()

    def _read(self) -> None:
        while not self._closing.is_set():
            if self._reopening:
                self._closing.wait(0.01)
                continue
            try:
                frame = self._bus.recv(timeout=0.05)
            except Exception as error:  # pyserial: a TypeError, if the bus is closed meanwhile
                self._failed(error)
                self._closing.wait(0.01)
                continue
            self._failures = 0
            if frame is not None:
                self._queue.append(from_message(frame, self._interface))
                self._notify()

    def _failed(self, error: Exception) -> None:
        self._errors += 1
        # Neither an error frame nor a bus-off controller is a failure of the interface.
        self._failures += not (isinstance(error, ValueError) or self.bus_off())

    def _notify(self) -> None:
        with suppress(OSError):  # full: it is already readable
            self._signal.send(b"\0")


def _enlarge_buffer(fd: int) -> None:
    with suppress(OSError):  # not a socket, or not allowed
        duplicate = os.dup(fd)
        try:
            same = socket.socket(fileno=duplicate)
        except OSError:
            os.close(duplicate)
            raise
        with same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            if sys.platform == "linux":
                same.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)


def check_bus(arguments: Mapping[str, Any], label: str) -> list[str]:
    """Problems of a ``bus`` table that can be found without opening the bus."""
    interface = arguments.get("interface")
    known = sorted(str(name) for name in can.VALID_INTERFACES)
    if interface is None:
        return [f"{label}: 'interface' is missing; for example interface = \"socketcan\""]
    if interface not in known:
        return [
            f"{label}: python-can has no interface {interface!r}{nearest(str(interface), known)}"
        ]
    return unknown_keys(arguments, label)


def _reason(error: Exception) -> str:
    if isinstance(error, NameError):  # python-can's error for a missing vendor library
        return f"the library of the interface's vendor is not installed ({error})"
    return str(error) or type(error).__name__


def _remedy(error: Exception, interface: str) -> str:
    cause = error.__cause__
    offline = isinstance(cause, OSError) and cause.errno in (errno.ENODEV, errno.ENETUNREACH)
    if interface == "udp_multicast" and offline:
        return (
            "the machine has no network for multicast frames; without one, they work within the "
            "machine with an IPv4 channel and hop_limit = 0, or after "
            "`sudo ip route add 224.0.0.0/4 dev lo`"
        )
    return "check interface and channel, the cable or network, and that the interface is up"


def _restrict_to_group(fd: int) -> None:
    """Exclude other groups on the same port, which Linux delivers if any socket has joined them."""
    if sys.platform != "linux":
        return
    with socket.socket(fileno=os.dup(fd)) as same:
        ipv6 = same.family == socket.AF_INET6
        level, option = (socket.IPPROTO_IPV6, 29) if ipv6 else (socket.IPPROTO_IP, 49)
        same.setsockopt(level, option, 0)  # IPV6_MULTICAST_ALL, IP_MULTICAST_ALL


def open_library_bus(arguments: Mapping[str, Any], label: str) -> can.BusABC:
    """Open a bus of python-can, without `CanBus` around it.

    Parameters
    ----------
    arguments : mapping
        As for `hilrt.can.udp_multicast.open_can`.
    label : str
        Table and key of the bus, for messages.

    Raises
    ------
    ConfigError
        If it cannot be opened, with the reason and a remedy.
    """
    problems = check_bus(arguments, label)
    if problems:
        raise ConfigError(problems)
    try:
        return open_can(**arguments)
    except Exception as error:  # drivers may raise any exception
        cause = str(error.__cause__ or "")
        cause = f" ({cause})" if cause and cause not in str(error) else ""  # often included already
        shown = {key: value for key, value in arguments.items() if key != "can_filters"}
        raise ConfigError(
            f"{label}: the bus {shown!r} cannot be opened: {_reason(error)}{cause}; "
            f"{_remedy(error, arguments['interface'])}"
        ) from None


def open_bus(arguments: Mapping[str, Any], receive: Sequence[Message], label: str) -> CanBus:
    """Open a bus and listen to the given messages.

    Parameters
    ----------
    arguments : mapping
        As for `open_library_bus`.
    receive : sequence of Message
        Messages to listen to; the kernel may drop others. Empty: all messages.
    label : str
        Table and key of the bus, for messages.

    Raises
    ------
    ConfigError
        As for `open_library_bus`.
    """
    filters: dict[str, Any] = {}
    if arguments.get("interface") == "socketcan" and receive:
        # Only for a filter in the kernel: python-can's own filter makes `recv` return None for
        # every dropped frame, which means "empty". The receiver looks up identifiers anyway.
        filters["can_filters"] = IdTable((message, True) for message in receive).filters()
        if any(map(is_j1939, receive)):
            filters["can_filters"] += j1939_transport.filters()
    arguments = {**arguments, **filters}
    bus = open_library_bus(arguments, label)
    direct: Callable[[int], Direct] | None = None
    if arguments["interface"] == "udp_multicast":
        _restrict_to_group(bus.fileno())
    if UdpFrames.available(arguments["interface"]):
        group = str(arguments.get("channel") or UdpMulticastBus.DEFAULT_GROUP_IPv6)
        hops = int(arguments.get("hop_limit", 0))
        direct = partial(UdpFrames, group=group, hop_limit=hops)
    elif SocketCanFrames.available(arguments["interface"], arguments.get("channel")):
        direct = SocketCanFrames
    reopen = partial(open_can, **arguments)
    return CanBus(bus, direct, reopen, arguments["interface"], arguments.get("channel"))
