"""The report on the host: what is looked up, graded, and said."""

import ctypes
import fcntl
import json
import struct
import sys

import pytest
from typer.testing import CliRunner

from hilrt.cli.main import app
from hilrt.timing import doctor
from hilrt.timing.doctor import Host, Line


@pytest.fixture
def host(tmp_path):
    def make(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Host(tmp_path)

    return make


def test_preemption(host):
    assert doctor.preemption_line(host(sys__kernel__realtime="1\n")).grade == "good"


def test_preemption_chosen_at_boot(host):
    told = host(sys__kernel__debug__sched__preempt="none voluntary (full)\n")
    assert doctor.preemption_line(told)[1:3] == ("full", "good")


def test_preemption_of_an_ordinary_kernel_has_a_remedy(host):
    line = doctor.preemption_line(host(proc__version="Linux version 6.1 #1 SMP"))
    assert line.grade == "poor"
    assert "PREEMPT_RT" in line.remedy


@pytest.mark.parametrize(("name", "graded"), [("performance", "good"), ("powersave", "poor")])
def test_governor(host, monkeypatch, name, graded):
    monkeypatch.setattr(doctor, "available_cpus", lambda: [0])
    files = {"sys__devices__system__cpu__cpu0__cpufreq__scaling_governor": name}
    line = doctor.governor_line(host(**files))
    assert (line.found, line.grade, bool(line.remedy)) == (name, graded, graded != "good")


@pytest.mark.parametrize(("ticks", "graded"), [(0, "good"), (50, "poor"), (500, "bad")])
def test_stolen_time(host, monkeypatch, ticks, graded):
    monkeypatch.setattr(doctor, "available_cpus", lambda: [1])
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    stat = f"cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 4 5 6 7 {ticks} 0 0\n"
    line = doctor.stolen_line(host(proc__stat=stat, proc__uptime="1000.0 1500.0"))
    assert (line.grade, bool(line.remedy)) == (graded, graded != "good")
    assert line.found.startswith(f"{ticks / 1000:.2f} %")


def test_stolen_time_where_it_is_not_told(host):
    assert doctor.stolen_line(host(proc__stat="cpu0 1 2 3 4\n")).found == "not reported"


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_limits_name_what_is_missing(host, monkeypatch):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda which: (0, 0))
    told = host(
        proc__self__status="CapEff:\t0000000000000000\n",
        proc__sys__kernel__sched_rt_runtime_us="500000",
        proc__sys__kernel__sched_rt_period_us="1000000",
    )
    lines = doctor.limit_lines(told)
    assert [line.grade for line in lines] == ["poor", "poor", "poor", "poor"]
    assert "rtprio" in lines[0].remedy
    assert "memlock" in lines[1].remedy
    assert "pacing.awake" in lines[2].remedy
    assert "50%" in lines[3].found


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_writable_latency_device_lets_processors_stay_awake(host):
    lines = doctor.limit_lines(host(dev__cpu_dma_latency=""))
    (line,) = [line for line in lines if "awake" in line.what]
    assert line.grade == "good"


def test_can_interfaces(host):
    assert "no SocketCAN" in doctor.can_line(host()).found
    told = host(sys__class__net__can0__type="280", sys__class__net__can0__flags="0x80")
    assert doctor.can_line(told)[1:3] == ("can0: down", "poor")
    told = host(sys__class__net__can0__type="280", sys__class__net__can0__flags="0x81")
    line = doctor.can_line(told)
    assert line.grade == "good"
    assert "nothing is sent" in line.found
    assert line.found.endswith("; time stamps by the kernel for can0")  # there is none here


@pytest.mark.parametrize(
    ("flags", "text"),
    [(0x5F, "by the hardware of can0"), (0x1B, "by the kernel for can0"), (None, "by the kernel")],
)
def test_an_interface_is_asked_for_its_time_stamps(monkeypatch, flags, text):
    """As the kernel answers ETHTOOL_GET_TS_INFO: all of `SOF_TIMESTAMPING_…`, or software's."""

    def ioctl(descriptor, number, request):
        assert number == 0x8946
        name, address = struct.unpack("16sP16x", request)
        assert name.rstrip(b"\0") == b"can0"
        if flags is None:
            raise OSError(95, "Operation not supported")
        ctypes.cast(address, ctypes.POINTER(ctypes.c_uint32))[1] = flags
        return request

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    assert text in doctor.stamps_text(["can0"])


def test_loopback_answers():
    line = doctor.loopback_line()
    assert "us (p99" in line.found


def test_wake_ups_are_measured(monkeypatch):
    monkeypatch.setattr(doctor, "WAKES", 10)
    lines = doctor.wake_lines()
    assert [line.what.split(" ")[0] for line in lines] == ["wake-up", "wake-up", "master_timeout"]
    assert all("us (p99" in line.found for line in lines[:2])


@pytest.mark.parametrize(
    ("longest_ms", "found", "graded"),
    [(0.3, "0.05 s or more: ", "good"), (5.0, "0.05 s", "good"), (37.0, "0.4 s or", "poor")],
)
def test_a_master_timeout_is_recommended_by_the_longest_pause(longest_ms, found, graded):
    line = doctor.timeout_line(longest_ms * 1e6)
    assert line.found.startswith(found)
    assert f"the longest pause here was {longest_ms:.1f} ms" in line.found
    assert line.grade == graded
    assert ("set master_timeout = 0.4" in line.remedy) == (graded == "poor")


def test_less_is_better():
    assert [doctor.grade(v, 1, 2) for v in (1, 2, 3)] == ["good", "poor", "bad"]


def test_every_line_that_is_not_good_has_a_remedy():
    lines = doctor.examine()
    assert len(lines) >= 9
    assert all(line.remedy for line in lines if line.grade != "good")


def test_command(monkeypatch):
    lines = [Line("clock", "fine", "good"), Line("load", "much", "bad", "close things")]
    monkeypatch.setattr(doctor, "examine", lambda: lines)
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 1
    assert "-> close things" in shown.stdout
    told = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert told[1] == {"what": "load", "found": "much", "grade": "bad", "remedy": "close things"}
