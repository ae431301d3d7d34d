"""`hilrt can`: its commands on a bus in this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import can
import pytest
from typer.testing import CliRunner

from hilrt.can.bus import CanBus
from hilrt.can.udp_multicast import open_can
from hilrt.cli.can_commands import bus_arguments, can_app
from hilrt.errors import ConfigError

DATABASE = str(Path(__file__).parents[2] / "bench_configs" / "engine_bench.dbc")
CHANNEL = "239.74.163.12"


@pytest.fixture
def bus() -> Iterator[tuple[str, can.BusABC]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    other = open_can(interface="udp_multicast", channel=CHANNEL, port=port, hop_limit=0)
    yield f"interface=udp_multicast,channel={CHANNEL},port={port}", other
    other.shutdown()


def run(*words: str) -> str:
    result = CliRunner().invoke(can_app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_send_by_name_and_raw(bus: tuple[str, can.BusABC]) -> None:
    text, other = bus
    run("send", "EngineSlow", "State=ENABLED", "FuelRate=2", "--bus", text, "--database", DATABASE)
    got = other.recv(5.0)
    assert got is not None
    assert (got.arbitration_id, got.is_extended_id) == (0x110, False)
    assert got.data[0] & 0x0E == 3 << 1
    assert "2 × 0x00000123 [0102]" in run(
        "send", "00000123#0102", "--bus", text, "--count", "2", "--cycle", "0"
    )
    got = other.recv(5.0)
    assert got is not None
    assert got.is_extended_id


def test_sniff_and_stats_see_frames(bus: tuple[str, can.BusABC]) -> None:
    text, other = bus
    done = threading.Event()

    def talk() -> None:
        while not done.wait(0.005):
            other.send(can.Message(arbitration_id=0x110, data=bytes(8), is_extended_id=False))

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        words = ("--bus", text, "--database", DATABASE, "--duration", "0.3")
        assert "EngineSlow Enabled=0 State=OFF" in run("sniff", "--lines", *words)
        assert "EngineSlow" in run("stats", *words)
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["zz#00"], "in hexadecimal"),
        (["800#00"], "3 or 8 digits"),
        (["EngineSlow"], "--database: is missing"),
        (["EngineSlo", "--database", DATABASE], "did you mean 'EngineSlow'"),
        (["EngineSlow", "Stat=1", "--database", DATABASE], "did you mean 'State'"),
        (["EngineSlow", "State=UP", "--database", DATABASE], "a number or one of"),
    ],
)
def test_what_cannot_be_sent_says_why(words: list[str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        run("send", *words, "--bus", "interface=virtual")


@pytest.mark.parametrize("command", [["sniff"], ["stats"], ["send", "123#00"]])
def test_a_driver_that_is_not_installed_is_an_error_with_a_remedy(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object, **kwargs: object) -> can.BusABC:
        raise NameError("name 'canGetNumberOfChannels' is not defined")

    monkeypatch.setattr(can, "Bus", fails)
    with pytest.raises(ConfigError, match=r"--bus interface=kvaser.* cannot be opened: .*install"):
        run(*command, "--bus", "interface=kvaser,channel=0")


def test_a_frame_that_does_not_leave_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise ValueError("no CAN FD here")

    monkeypatch.setattr(CanBus, "send", fails)
    with pytest.raises(ConfigError, match="0x123 was not sent: no CAN FD here; check"):
        run("send", "123#00", "--bus", "interface=virtual")


def test_a_database_with_mistakes_shows_what_it_can(tmp_path: Path) -> None:
    path = tmp_path / "mistakes.dbc"
    path.write_text(
        'VERSION ""\nBU_: A\nBO_ 256 Strange: 8 A\n SG_ Odd : 0|24@1- (1,0) [0|0] "" A\n'
        'BO_ 257 Beyond: 2 A\n SG_ Big : 7|32@0+ (1,0) [0|0] "" A\n'
        "SIG_VALTYPE_ 256 Odd : 1;\n"
    )
    words = ("--bus", "interface=virtual", "--database", str(path), "--duration", "0.1")
    for command in ("sniff", "stats"):
        result = CliRunner().invoke(can_app, [command, *words], catch_exceptions=False)
        assert result.exit_code == 0
        assert result.output.count("Strange") <= 1  # named, if it cannot be decoded


def test_generate_writes_once(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    assert "11 choices" in run("generate", str(path), "--database", DATABASE)
    with pytest.raises(ConfigError, match="already exists"):
        run("generate", str(path), "--database", DATABASE)


def test_bus_arguments() -> None:
    assert bus_arguments("interface=socketcan,channel=can0,fd=true,bitrate=500000") == {
        "interface": "socketcan",
        "channel": "can0",
        "fd": True,
        "bitrate": 500000,
    }
    with pytest.raises(ConfigError, match="write it as interface"):
        bus_arguments("can0")
