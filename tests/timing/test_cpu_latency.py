"""The limit of the processors' wake-up latency, on a file and, where permitted, on the device."""

import os
import sys

import pytest

from hilrt.timing.realtime import cpu_latency_limit

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


@linux
def test_the_limit_is_set_for_as_long_as_wanted(tmp_path):
    device = tmp_path / "cpu_dma_latency"
    device.write_bytes(b"\xff\xff\xff\x7f")
    descriptors = len(os.listdir("/proc/self/fd"))
    with cpu_latency_limit(True, device) as problem:
        assert problem is None
        assert device.read_bytes() == bytes(4)
        assert len(os.listdir("/proc/self/fd")) == descriptors + 1
    assert len(os.listdir("/proc/self/fd")) == descriptors  # closed: the request ends with it


@linux
def test_a_limit_without_permission_is_a_warning(tmp_path):
    with cpu_latency_limit(True, tmp_path / "none") as problem:
        assert problem is not None
        assert "pacing.awake" in problem


def test_no_limit_is_set_unless_wanted(tmp_path):
    with cpu_latency_limit(False, tmp_path / "none") as problem:
        assert problem is None


@linux
@pytest.mark.skipif(
    not os.access("/dev/cpu_dma_latency", os.W_OK), reason="needs the right to write the device"
)
def test_the_kernel_takes_the_request():
    with open("/dev/cpu_dma_latency", "rb") as reader, cpu_latency_limit(True) as problem:
        assert problem is None
        assert reader.read(4) == bytes(4)
