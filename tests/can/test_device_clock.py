"""Times of frames by the clock of a device or of an interface, against known ones."""

from __future__ import annotations

import socket
import struct
from typing import Any

import numpy as np
import pytest

from hilrt.can.device_clock import DeviceClock
from hilrt.can.socketcan import SocketCanFrames

SOL_SOCKET, TIMESTAMPNS, TIMESTAMPING = 1, 35, 37
FRAME = struct.pack("=IB3x8s", 0x100, 8, bytes(8))
EPOCH = 1_780_000_000_000_000_000


def test_a_devices_clock_is_mapped_by_its_quickest_frame() -> None:
    clock = DeviceClock()
    start = 77 * 10**12
    ages = [clock.age(k * 10**7, start + k * 10**7 + delay) for k, delay in enumerate((5, 0, 900))]
    assert ages[:2] == [0, 0]
    assert 900 - 10**4 <= ages[2] <= 900
    assert clock.age(0, start + 10**12) == 0  # the device was switched off and on


class Raw:
    """A raw socket with frames that have ancillary data as Linux lays it out."""

    def __init__(self, ancillary: list[list[tuple[int, int, bytes]]]) -> None:
        self.waiting = ancillary

    def recvmsg(self, *sizes: int) -> tuple[bytes, Any, int, None]:
        if not self.waiting:
            raise BlockingIOError
        return FRAME, self.waiting.pop(0), 0, None


def kernel_stamp(t_ns: int) -> tuple[int, int, bytes]:
    return SOL_SOCKET, TIMESTAMPNS, struct.pack("@ll", *divmod(t_ns, 10**9))


def both_stamps(kernel_ns: int, hardware_ns: int) -> tuple[int, int, bytes]:
    three = (*divmod(kernel_ns, 10**9), 0, 0, *divmod(hardware_ns, 10**9))
    return SOL_SOCKET, TIMESTAMPING, struct.pack("@llllll", *three)


@pytest.fixture
def made() -> Any:
    near, far = socket.socketpair()
    frames = SocketCanFrames(near.fileno())
    real = frames._socket

    def take(ancillary: list[list[tuple[int, int, bytes]]]) -> list[int]:
        frames._socket = Raw(ancillary)
        return [frame.t_ns for frame in frames.drain(10**6)]

    yield frames, take
    real.close()
    near.close()
    far.close()


def test_hardware_stamps_are_mapped_to_the_systems_clock(made: Any) -> None:
    """The interface's clock counts from its start and drifts; the kernel is late by chance."""
    frames, take = made
    rng = np.random.default_rng(7)
    truth = np.arange(5_000) * 1_000_000 + rng.integers(0, 50_000, 5_000)  # ns, 1 kHz for 5 s
    late = (3_000 + rng.exponential(200_000, 5_000)).astype(np.int64)
    hardware = (truth * (1 + 5e-5)).astype(np.int64) + 123_456_789
    kernel = EPOCH + truth + late
    told = take(
        [
            [kernel_stamp(int(k)), both_stamps(int(k), int(h))]
            for k, h in zip(kernel, hardware, strict=True)
        ]
    )
    error = np.array(told)[500:] - EPOCH - truth[500:]
    by_kernel = late[500:]
    assert frames.stamps == "hardware"
    assert np.abs(error).max() < 0.05 * by_kernel.max()
    assert np.sqrt(np.mean(error**2)) < 0.1 * np.sqrt(np.mean(by_kernel**2.0))


@pytest.mark.parametrize("asked", [True, False], ids=["no hardware", "an old kernel"])
def test_without_hardware_stamps_they_are_the_kernels(made: Any, asked: bool) -> None:
    frames, take = made
    stamps = [[kernel_stamp(EPOCH + k), *[both_stamps(EPOCH + k, 0)] * asked] for k in range(3)]
    assert take(stamps) == [EPOCH, EPOCH + 1, EPOCH + 2]
    assert take([[]]) == [0]
    assert take([[both_stamps(EPOCH, 0)]]) == [EPOCH]
    assert frames.stamps == "kernel"
