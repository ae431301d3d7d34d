"""A bench's times against those of the session."""

from __future__ import annotations

from pathlib import Path

import pytest

from hilrt.can import socketcan
from hilrt.check.check import check_file

CONFIGS = Path(__file__).parents[2] / "bench_configs"
ENGINE = "subsystems.engine"


def found(level: str, *overrides: str) -> list[str]:
    problems = check_file(CONFIGS / "engine_in_the_loop.toml", overrides)
    return [str(problem) for problem in problems if problem.level == level]


def test_the_shipped_session_has_no_warnings() -> None:
    assert found("error") == []
    assert found("warning") == []


@pytest.mark.parametrize(
    ("bus", "warned"),
    [
        ({"interface": "socketcan", "channel": "can0"}, True),
        ({"interface": "pcan", "channel": "PCAN_USBBUS1"}, True),
        ({"interface": "socketcan", "channel": "vcan0"}, False),
        ({}, False),
    ],
)
def test_an_emulator_beside_a_real_interface(bus: dict[str, str], warned: bool) -> None:
    overrides = [f"{ENGINE}.bus.{key}={value}" for key, value in bus.items()]
    lines = [line for line in found("warning", *overrides) if "emulator = 'engine'" in line]
    assert len(lines) == warned
    assert all("a real interface" in line for line in lines)


def test_a_recovery_from_bus_off_that_would_not_take_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (line,) = found("warning", f"{ENGINE}.bus_off_recovery.delay=2.0")
    assert "bus_off_recovery] delay = 2.0: has no effect on bus.interface = 'udp_multicast'" in line
    monkeypatch.setattr(socketcan, "may_restart", lambda: False)
    real = [f"{ENGINE}.bus_off_recovery.delay=2.0", f"{ENGINE}.bus.interface=socketcan"]
    (line,) = [line for line in found("warning", *real) if "bus_off_recovery" in line]
    assert "only a process with the capability CAP_NET_ADMIN" in line
    (line,) = found("error", f"{ENGINE}.bus_off_recovery.attempts=0")
    assert "attempts" in line


SPEED, PEDAL = f"{ENGINE}.inputs.speed_demand", f"{ENGINE}.inputs.pedal"
STEP_TIMEOUT = f"{ENGINE}.safe_profile.step_timeout"


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            [f"{SPEED}.max_rate=10.0", "master.arm_timeout=100"],
            "[subsystems.engine.inputs.speed_demand] max_rate = 10.0: the safe profile may need "
            "65 s to move the input by 650 to safe = 0, but safe_profile.step_timeout = 2 s, so "
            "the enable may be withdrawn before the input arrives; raise step_timeout above 65 s, "
            "or let",
        ),
        (
            [f"{STEP_TIMEOUT}=0.5"],
            "[subsystems.engine.inputs.speed_demand] max_rate = 800.0: the safe profile may need "
            "0.812 s to move the input by 650 to safe = 0, but safe_profile.step_timeout = 0.5 s",
        ),
        (
            [f"{PEDAL}.max_jerk=0.001", "master.arm_timeout=1e6"],
            "[subsystems.engine.inputs.pedal] max_rate = 500.0: with max_jerk = 0.001 the safe "
            "profile may need 632 s to move the input by 100 to safe = 0",
        ),
        (
            [f"{PEDAL}.max_jerk=100.0", f"{PEDAL}.max_rate=80.0"],
            "[subsystems.engine.inputs.pedal] max_rate = 80.0: with max_jerk = 100 the safe "
            "profile may need 2.05 s to move the input by 100 to safe = 0",
        ),
        ([f"{SPEED}.max_rate=325.0"], "[subsystems.engine.inputs.speed_demand] max_rate = 325.0"),
    ],
)
def test_a_safe_profile_that_is_over_too_soon(overrides: list[str], text: str) -> None:
    (line,) = found("warning", *overrides)
    assert line.startswith(text)


@pytest.mark.parametrize(
    "overrides",
    [
        [f"{SPEED}.max_rate=326.0"],
        [f"{SPEED}.max_rate=170.0", f"{SPEED}.safe=325.0"],
        [f"{PEDAL}.max_jerk=1000.0"],  # arrives before it has reached its rate
        [f"{SPEED}.max_rate=100.0", f"{STEP_TIMEOUT}=6.6"],
    ],
)
def test_a_safe_profile_that_can_end(overrides: list[str]) -> None:
    assert found("warning", *overrides) == []


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            [f"{ENGINE}.enable.timeout=16.0"],
            "[subsystems.engine.enable] timeout = 16.0: is never reached: [master] arm_timeout "
            "= 15 ends arming first; shorten it, or raise arm_timeout",
        ),
        (
            ["master.arm_timeout=6.0"],
            "[master] arm_timeout = 6.0: arming 'engine' may take 6.01 s: 5 s to be enabled, "
            "0.812 s for its longest ramp, and 0.2 s to settle; raise it above that",
        ),
        (
            [f"{ENGINE}.safe_profile.step_timeout=30.0", f"{ENGINE}.inputs.pedal.max_jerk=50.0"],
            "[master] arm_timeout = 15.0: arming 'engine' may take 15.4 s: 5 s to be enabled, "
            "10.2 s for its longest ramp",
        ),
    ],
)
def test_arming_that_may_take_too_long(overrides: list[str], text: str) -> None:
    (line,) = found("warning", *overrides)
    assert line.startswith(text)
    assert found("error", *overrides) == []


@pytest.mark.parametrize(
    ("level", "timeout", "every", "text"),
    [
        ("error", 0.0008, 1, "is shorter than the interval of set-points, 0.001 s; use 0.0"),
        ("error", 0.001, 1, "is shorter than the interval of set-points, 0.001 s; use 0.0"),
        ("error", 0.01, 10, "is shorter than the interval of set-points, 0.01 s; use 0.03"),
        ("warning", 0.002, 1, "is less than 3 set-points, 0.001 s apart: a late tick ends"),
        ("warning", 0.025, 10, "is less than 3 set-points, 0.01 s apart: a late tick ends"),
    ],
)
def test_a_master_timeout_of_few_steps(level: str, timeout: float, every: int, text: str) -> None:
    lines = found(level, f"{ENGINE}.master_timeout={timeout}", f"{ENGINE}.every={every}")
    assert any(
        line.startswith(f"[subsystems.engine] master_timeout = {timeout!r}: {text}")
        for line in lines
    ), lines


@pytest.mark.parametrize(
    ("level", "delay", "text"),
    [
        ("warning", 0.006, "is 6 steps of 0.001 s, and set-points are extrapolated so far"),
        ("warning", 1.0, "is 1e+03 steps of 0.001 s"),
        (
            "error",
            2.0,
            "is longer than 1 s: set-points cannot be extrapolated so far; give it in sec",
        ),
    ],
)
def test_a_long_actuation_delay(level: str, delay: float, text: str) -> None:
    (line,) = found(level, f"{ENGINE}.actuation_delay={delay}")
    assert line.startswith(f"[subsystems.engine] actuation_delay = {delay!r}: {text}")


@pytest.mark.parametrize("spin", [1000.0, 1e300])
def test_a_spin_of_a_whole_step(spin: float) -> None:
    (line,) = found("error", f"master.pacing.spin={spin}")
    assert line.startswith(f"[master.pacing] spin = {spin!r}: is not shorter than one step")
