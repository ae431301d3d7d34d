"""Frames per second and bus load: against figures of Davis et al. (2007) and by hand."""

from pathlib import Path

import cantools
import pytest

from hilrt.bench.read_bench import longest_frame
from hilrt.check.check import check_file

CONFIG = Path(__file__).parents[2] / "bench_configs" / "engine_in_the_loop.toml"


def message(length, extended=False, fd=False):
    identifier = 0x98FE0000 if extended else 0x100
    text = f'VERSION ""\nBU_: A\nBO_ {identifier} M: {length} A\n SG_ S : 0|8@1+ (1,0) [0|0] "" A\n'
    (found,) = cantools.database.load_string(text, "dbc").messages
    found._is_fd = fd
    return found


def test_the_longest_frames_are_those_of_the_paper():
    """Table 1 of Davis et al.: 55 + 10 s bits with an identifier of 11 bits, 80 + 10 s with 29."""
    for length in range(1, 9):
        assert longest_frame(message(length)) == 55 + 10 * length
        assert longest_frame(message(length, extended=True)) == 80 + 10 * length
    assert longest_frame(message(8, fd=True)) == 0


@pytest.mark.parametrize(
    ("bitrate", "level", "share"), [(1_000_000, "info", 42), (500_000, "warning", 84)]
)
def test_check_states_the_load(bitrate, level, share):
    """Three messages of 8 bytes every ms, one every 10 ms: 3.1 kHz of 135 bits."""
    settings = ["master.step=0.001", f"subsystems.engine.bus.bitrate={bitrate}"]
    (line,) = [p for p in check_file(CONFIG, settings) if "frames per s" in str(p)]
    assert line.level == level
    assert "2,000 frames per s are sent and 1,100 received" in str(line)
    assert f"at most {share}% of {bitrate / 1e3:g} kbit/s" in str(line)


def test_without_a_bit_rate_there_are_frames_alone():
    (line,) = [p for p in check_file(CONFIG) if "frames per s" in str(p)]
    assert line.level == "info"
    assert "set bus.bitrate to compute the load" in str(line)


def test_a_bench_that_sends_too_rarely_for_the_step_is_warned_of():
    """The engine bench sends every ms; late after 2.5 steps."""

    def late(step):
        found = check_file(CONFIG, [f"master.step={step}"])
        return [str(p) for p in found if "its samples are late" in str(p)]

    assert late(4.1e-4) == []
    (line,) = late(3.9e-4)
    assert "sends a frame every 1.00 ms, and its samples are late after 2.5 of its steps" in line
    assert "set it to 3, or use master.step = 0.001" in line


@pytest.mark.parametrize(("step", "rate"), [(0.005, 400), (0.1, 200)])
def test_set_points_go_once_per_step_and_are_repeated_in_long_ones(step, rate):
    """Two messages, every step and at least every 10 ms."""
    sent = [f'subsystems.engine.messages.{name}Demand.send="tick"' for name in ("Dyno", "Engine")]
    found = check_file(CONFIG, [*sent, f"master.step={step}"])
    (line,) = [p for p in found if "frames per s" in str(p)]
    assert f"{rate} frames per s are sent" in str(line)
