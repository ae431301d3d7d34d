"""``hilrt doctor``: the real-time capabilities of this host, line by line.

Each line has a value, a grade (good, poor, bad) and, unless the grade is good, a remedy. Everything
is read from the host or measured within a second or two; no setting of the host is changed.
"""

from __future__ import annotations

import array
import asyncio
import os
import platform
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from hilrt.solver import Floats
from hilrt.timing.clock import WallClock
from hilrt.timing.host import COMMON, available_cpus, descriptor_limit, stolen_s
from hilrt.timing.monotonic import monotonic_ns
from hilrt.timing.realtime import throttle_share

Grade = Literal["good", "poor", "bad"]


class Line(NamedTuple):
    """One line of the report: the item, the finding, and the remedy."""

    what: str
    found: str
    grade: Grade
    remedy: str = ""


class Host:
    """The kernel's ``proc`` and ``sys`` folders; a test passes its own.

    Parameters
    ----------
    root : Path
        Root of the file system with ``proc`` and ``sys``.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def read(self, path: str) -> str | None:
        """Return the stripped text of a file; None if it does not exist."""
        try:
            return (self.root / path).read_text().strip()
        except OSError:
            return None


def graded_line(what: str, found: str, graded: Grade, remedy: str) -> Line:
    """A line that shows its remedy unless it is good."""
    return Line(what, found, graded, "" if graded == "good" else remedy)


def grade(value: float, good: float, poor: float) -> Grade:
    """Grade a value that should be small."""
    return "good" if value <= good else "poor" if value <= poor else "bad"


# -- read from the host
# -----------------------------------------------------------------------------------


def system_line() -> Line:
    """Operating system and processors."""
    cpus = available_cpus()
    found = f"{platform.system()} {platform.release()}, {len(cpus)} processors for this process"
    if sys.platform != "linux":
        return Line("system", found, "poor", "run on Linux: pinning and priority need it")
    if len(cpus) < 2:
        return Line("system", found, "bad", "give it two or more: the master needs one to itself")
    return Line("system", found, "good")


def preemption_line(host: Host) -> Line:
    """Preemption model of the kernel."""
    if host.read("sys/kernel/realtime") == "1":
        return Line("kernel preemption", "PREEMPT_RT", "good")
    version = host.read("proc/version") or platform.version()
    chosen = host.read("sys/kernel/debug/sched/preempt") or ""
    model = chosen.partition("(")[2].partition(")")[0]
    if not model:
        model = next(
            (
                word.lower()
                for word in ("PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT")
                if word in version
            ),
            "unknown: probably none or voluntary",
        )
    remedy = "boot with preempt=full, or a PREEMPT_RT kernel; pinning and spinning help without it"
    graded = _good_if(model in ("full", "preempt", "preempt_rt"))
    return graded_line("kernel preemption", model, graded, remedy)


def clock_line(host: Host) -> Line:
    """Clock source of the kernel, and the cost of a reading."""
    source = host.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
    begun = time.perf_counter_ns()
    for _ in range(1000):
        monotonic_ns()
    cost = (time.perf_counter_ns() - begun) / 1000
    found = f"{source or 'unknown'}, {cost:.0f} ns per reading"
    graded = grade(cost, 200, 1000)
    remedy = "choose tsc (or the hypervisor's clock) as clock source; hpet and acpi_pm are slow"
    return graded_line("clock source", found, graded, remedy)


def governor_line(host: Host) -> Line:
    """Frequency governors: some let processors slow down between ticks."""
    found = [
        host.read(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")
        for cpu in available_cpus()
    ]
    names = sorted({name for name in found if name is not None})
    if not names:
        return Line("frequency governor", "unknown (virtual machine or fixed frequency)", "good")
    if names == ["performance"]:
        return Line("frequency governor", "performance", "good")
    remedy = "cpupower frequency-set -g performance"
    return Line("frequency governor", ", ".join(names), "poor", remedy)


def limit_lines(host: Host) -> list[Line]:
    """Permission for real-time priority and locked memory, and the kernel's throttling."""
    if sys.platform != "linux":
        return []
    import resource

    rtprio = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    memlock = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    capable = int(_status(host, "CapEff") or "0", 16)
    nice, lock = bool(capable >> 23 & 1), bool(capable >> 14 & 1)
    allowed = nice or rtprio != 0
    found = "permitted by CAP_SYS_NICE" if nice else f"rtprio limit {_limit(rtprio)}"
    remedy = "give the user an rtprio limit in /etc/security/limits.d, which sessions then use"
    lines = [graded_line("real-time priority", found, _good_if(allowed), remedy)]
    allowed = lock or memlock == resource.RLIM_INFINITY
    found = "permitted by CAP_IPC_LOCK" if lock else f"memlock limit {_limit(memlock)}"
    remedy = "set the user's memlock limit to unlimited, for pacing.lock_memory"
    lines.append(graded_line("locked memory", found, _good_if(allowed), remedy))
    device = host.root / "dev/cpu_dma_latency"
    allowed = os.access(device, os.W_OK)
    remedy = f"let the user write {device} (a udev rule), for pacing.awake"
    found = "permitted" if allowed else "not permitted"
    lines.append(graded_line("processors kept awake", found, _good_if(allowed), remedy))
    share = throttle_share(host.root / "proc/sys/kernel")
    if share is not None:
        remedy = "keep spin plus computing time below it, or sysctl kernel.sched_rt_runtime_us=-1"
        found = "none" if share == 1.0 else f"at {share:.0%} of the time"
        lines.append(graded_line("real-time throttling", found, _good_if(share >= 0.9), remedy))
    return lines


def descriptor_line() -> Line:
    """Limit on the master's open files and sockets."""
    limit = descriptor_limit()
    if limit is None:
        return Line("open files", "no limit", "good")
    found = _limit(limit.now)
    if limit.at_most > limit.now:
        found += f", can be raised to {_limit(limit.at_most)}"
    graded: Grade = "good" if limit.at_most >= COMMON else "bad"
    remedy = f"raise the user's nofile limit to {COMMON} or more, for example with ulimit -n"
    return graded_line("open files", found, graded, remedy)


def _good_if(fulfilled: bool) -> Grade:
    return "good" if fulfilled else "poor"


def _limit(value: int) -> str:
    return "unlimited" if value == -1 or value > 2**60 else str(value)


def _status(host: Host, key: str) -> str | None:
    for line in (host.read("proc/self/status") or "").splitlines():
        if line.startswith(f"{key}:"):
            return line.partition(":")[2].strip()
    return None


def timer_line() -> Line:
    """Timer that wakes the master."""
    found = "timerfd" if sys.platform == "linux" else "the event loop's own"
    resolution = time.get_clock_info("monotonic").resolution
    text = f"{found}, clock resolution {resolution * 1e9:.0f} ns"
    if sys.platform == "linux":
        return Line("timer", text, "good")
    return Line("timer", text, "poor", "run on Linux; elsewhere use a longer step and pacing.spin")


# -- measured ------------------------------------------------------------------------------------


#: Default `master_timeout` of a real bench, s; and the factor by which it should exceed the longest
#: measured pause.
DEFAULT_TIMEOUT_S, PAUSES = 0.05, 10.0


def timeout_line(longest_ns: float) -> Line:
    """Recommend a `master_timeout` from this process's longest measured pause, ns."""
    wanted = PAUSES * longest_ns * 1e-9
    shortest = max(DEFAULT_TIMEOUT_S, float(f"{wanted:.1g}"))
    found = f"{shortest:g} s or more: the longest pause here was {longest_ns * 1e-6:.1f} ms"
    if wanted <= DEFAULT_TIMEOUT_S:
        return Line("master_timeout", found, "good")
    remedy = f"set master_timeout = {shortest:g} if the bench may run for so long without the "
    remedy += "master; otherwise give the master its own processor (pacing.affinity)"
    return Line("master_timeout", found, "poor", remedy)


def wake_lines() -> list[Line]:
    """Lateness of wake-ups 1 ms apart, by timer only and with a final spin; `master_timeout`."""
    plain = asyncio.run(wake_up(0))
    spin_ns = int(min(max(np.quantile(plain, 0.99), 50_000), 300_000))
    spun = asyncio.run(wake_up(spin_ns))
    p99, p99_spun = np.quantile(plain, 0.99) * 1e-3, np.quantile(spun, 0.99) * 1e-3
    remedy = "pin the master (pacing.affinity), use the performance governor, close other programs"
    graded, graded_spun = grade(p99, 100, 500), grade(p99_spun, 20, 200)
    more = f"{remedy}; real-time priority"
    return [
        graded_line("wake-up by timer", _spread(plain), graded, remedy),
        graded_line(
            f"wake-up with {spin_ns / 1000:.0f} us of spin", _spread(spun), graded_spun, more
        ),
        timeout_line(float(max(plain.max(), spun.max()))),
    ]


def loopback_line() -> Line:
    """Round trip of a message to another thread of this process, by TCP on the loopback."""
    remedy = "check for a firewall or a filter on the loopback interface, and for other load"
    try:
        trips = loopback_trips()
    except OSError as error:
        return Line("loopback round trip", f"fails: {error.strerror}", "bad", remedy)
    graded = grade(float(np.median(trips)) * 1e-3, 150, 500)
    return graded_line("loopback round trip", _spread(trips), graded, remedy)


def can_line(host: Host) -> Line:
    """CAN interfaces, and the time between two sockets on the first virtual one that is up."""
    names = sorted(
        path.parent.name
        for path in (host.root / "sys/class/net").glob("*/type")
        if (host.read(f"sys/class/net/{path.parent.name}/type") or "") == "280"
    )
    if not names:
        remedy = (
            "for a SocketCAN bench: load the driver and bring the interface up (ip link set can0 "
            "up type can bitrate 500000); emulated benches need none"
        )
        return Line("CAN", "no SocketCAN interface", "poor", remedy)
    up = [n for n in names if int(host.read(f"sys/class/net/{n}/flags") or "0", 16) & 1]
    if not up:
        return Line("CAN", f"{', '.join(names)}: down", "poor", f"ip link set {names[0]} up")
    virtual = [name for name in up if name.startswith("vcan")]
    if not virtual:  # a frame on a real bus could move a bench
        found = f"{', '.join(up)}: up, not measured (nothing is sent to a bus)"
        return Line("CAN", f"{found}; {stamps_text(up)}", "good")
    try:
        trips = can_trips(virtual[0])
    except OSError as error:
        return Line("CAN", f"{virtual[0]}: {error.strerror}", "bad", "check the interface")
    graded = grade(float(np.median(trips)) * 1e-3, 150, 500)
    found = f"{virtual[0]}: {_spread(trips)}; {stamps_text(up)}"
    return graded_line("CAN", found, graded, "close other programs")


#: Query of an interface's time-stamping capabilities (linux/ethtool.h, linux/net_tstamp.h).
_SIOCETHTOOL, _GET_TS_INFO, _TS_INFO_WORDS = 0x8946, 0x41, 11
_HARDWARE = 0x04 | 0x40  # RX_HARDWARE, RAW_HARDWARE


def hardware_stamps(name: str) -> bool:
    """Whether a network interface time-stamps received frames in hardware."""
    import fcntl

    info = array.array("I", [_GET_TS_INFO] + [0] * (_TS_INFO_WORDS - 1))
    request = struct.pack("16sP16x", name.encode(), info.buffer_info()[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            fcntl.ioctl(probe, _SIOCETHTOOL, request)
    except OSError:
        return False
    return info[1] & _HARDWARE == _HARDWARE


def stamps_text(names: Sequence[str]) -> str:
    """Describe the source of these interfaces' time stamps."""
    hardware = [name for name in names if hardware_stamps(name)]
    others = ", ".join(name for name in names if name not in hardware)
    origins = [f"by the hardware of {', '.join(hardware)}"] * bool(hardware)
    return (
        f"time stamps {' and '.join([*origins, *[f'by the kernel for {others}'] * bool(others)])}"
    )


def load_line() -> Line:
    """Load of the host by other programs."""
    if not hasattr(os, "getloadavg"):
        return Line("load", "not reported", "good")
    load, cpus = os.getloadavg()[0], len(available_cpus())
    graded = grade(load / cpus, 0.5, 1.0)
    remedy = "close other programs; they also affect the measurements below"
    return graded_line("load", f"{load:.1f} on {cpus} processors", graded, remedy)


def stolen_line(host: Host) -> Line:
    """Processor time that the hypervisor has given to other virtual machines."""
    uptime, cpus = host.read("proc/uptime"), available_cpus()
    stolen = stolen_s(host.read("proc/stat") or "", cpus)
    if stolen is None or not uptime:
        return Line("stolen time", "not reported", "good")
    share = 100 * stolen / max(float(uptime.split()[0]), 1.0)
    graded = grade(share, 0.01, 0.1)
    remedy = "give this virtual machine dedicated processors, or use another"
    found = f"{share:.2f} % since the start, by the machine's host"
    return graded_line("stolen time", found, graded, remedy)


def spread_text(times_us: Sequence[float] | Floats) -> str:
    """Median, 99 % quantile and maximum of times, µs."""
    p50, p99, most = np.quantile(times_us, (0.5, 0.99, 1.0)).tolist()
    return f"{p50:.1f} us (p99 {p99:.0f}, max {most:.0f})"


def _spread(ns: Floats) -> str:
    return spread_text(ns * 1e-3)


# -- the report ----------------------------------------------------------------------------------


def examine(host: Host | None = None) -> list[Line]:
    """Return all lines of the report; takes a second or two."""
    host = host or Host()
    return [
        system_line(),
        preemption_line(host),
        clock_line(host),
        governor_line(host),
        *limit_lines(host),
        descriptor_line(),
        timer_line(),
        load_line(),
        stolen_line(host),
        *wake_lines(),
        loopback_line(),
        can_line(host),
    ]


def as_text(lines: Sequence[Line]) -> str:
    """Format the report as text, with remedies below the lines that need one."""
    width = max(len(line.what) for line in lines)
    rows = []
    for line in lines:
        rows.append(f"{line.grade:5} {line.what:{width}}  {line.found}")
        if line.remedy:
            rows.append(f"{'':6}{'':{width}}  -> {line.remedy}")
    return "\n".join(rows)


# Measurements of the delays that a host adds: wake-ups by timer, the loopback, CAN sockets.

#: Numbers of measured wake-ups and round trips.
WAKES, TRIPS = 300, 300
INTERVAL_NS = 1_000_000


async def wake_up(spin_ns: int) -> Floats:
    """Measure the lateness of wake-ups 1 ms apart with a final spin, ns, shape (WAKES,)."""
    clock = WallClock(spin_ns)
    lateness = np.empty(WAKES)
    try:
        target = clock.now_ns()
        for k in range(WAKES):
            target = max(target + INTERVAL_NS, clock.now_ns() + INTERVAL_NS // 2)
            lateness[k] = await clock.sleep_until(target) - target
    finally:
        clock.close()
    return lateness


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname(), timeout=2.0)
        far, _ = server.accept()
    for end in (near, far):
        end.settimeout(2.0)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def loopback_trips() -> Floats:
    """Measure round trips to another thread of this process by TCP, ns, shape (TRIPS,)."""
    near, far = _tcp_pair()

    def echo() -> None:
        try:
            while data := far.recv(64):
                far.sendall(data)
        except OSError:
            return

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    trips = np.empty(TRIPS)
    try:
        for k in range(TRIPS):
            begun = monotonic_ns()
            near.sendall(b"x" * 16)
            near.recv(64)
            trips[k] = monotonic_ns() - begun
    finally:
        near.close()
        thread.join(timeout=3.0)
        far.close()
    return trips


def can_trips(name: str) -> Floats:
    """Measure times between two raw CAN sockets on a virtual interface, ns, shape (TRIPS,)."""
    if sys.platform != "linux":
        raise OSError(0, "only Linux has SocketCAN")
    frame = (0x7FF).to_bytes(4, "little") + bytes([8, 0, 0, 0]) + bytes(8)
    with (
        socket.socket(socket.PF_CAN, socket.SOCK_RAW, socket.CAN_RAW) as near,
        socket.socket(socket.PF_CAN, socket.SOCK_RAW, socket.CAN_RAW) as far,
    ):
        for end in (near, far):
            end.bind((name,))
            end.settimeout(1.0)
        trips = np.empty(TRIPS)
        for k in range(TRIPS):
            begun = monotonic_ns()
            near.send(frame)
            far.recv(16)
            trips[k] = monotonic_ns() - begun
    return trips
