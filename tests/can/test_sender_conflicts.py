"""Another node that drives the same bench is found before anything is sent."""

import threading
import uuid
from pathlib import Path

import can
import pytest

from hilrt.bench.read_bench import Bench
from hilrt.can.sender import refuse_conflicts
from hilrt.errors import ConfigError
from tests.bench.test_read_bench import read

DEMAND, FAST = 128, 256


@pytest.fixture
def sends(tmp_path: Path):
    """A bench on a bus of its own, on which another sender repeats one identifier."""
    threads, ended = [], threading.Event()

    def start(identifier: int):
        channel = uuid.uuid4().hex
        bus = can.Bus(interface="virtual", channel=channel)

        def send() -> None:
            frame = can.Message(arbitration_id=identifier, data=bytes(8), is_extended_id=False)
            while not ended.wait(0.002):
                bus.send(frame)
            bus.shutdown()

        threads.append(threading.Thread(target=send))
        threads[-1].start()
        return read(tmp_path, {"bus": {"interface": "virtual", "channel": channel}})

    yield start
    ended.set()
    for thread in threads:
        thread.join()


def refuse(bench: Bench, listen_s: float) -> None:
    refuse_conflicts(bench.options.bus, bench.driven, "[subsystems.engine] bus", listen_s)


def test_another_sender_of_the_demands_is_named(sends):
    with pytest.raises(
        ConfigError, match=r"\[subsystems.engine\] bus.*another node already sends Demand.*end the"
    ):
        refuse(sends(DEMAND), listen_s=10.0)


def test_the_bench_itself_is_no_company(sends):
    assert refuse(sends(FAST), listen_s=0.05) is None
