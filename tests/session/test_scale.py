"""Setting a session up costs what its subsystems cost, and not their square.

Counted are lines of Python that run, bytes and rows of tables, and no times.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import hilrt
from hilrt.check.check import check
from hilrt.config.session_file import load_session
from hilrt.session.assembly import assemble
from hilrt.session.initialization import initialize
from hilrt.session.loop_thread import run_in_loop
from hilrt.session.opening import connect, describe
from hilrt.step_log.signals import RowWriter, build_topics
from hilrt.tables.network import MOST_TRIED
from hilrt.tables.record import blocks
from tests.chain import chain

#: Between the most states whose error is followed and the most outputs that are tried out.
SIZES = (34, 51, 85)


@pytest.fixture
def set_up(tmp_path):
    """From a number of subsystems to the numerics of their session, with a row of its log."""

    def made(n: int) -> Any:
        file = tmp_path / f"chain{n}.toml"
        file.write_text(chain(n), encoding="utf-8")
        session = load_session(file)
        assert [str(p) for p in check(session) if p.level == "error"] == []

        async def assembled() -> Any:
            connected = await connect(describe(session), limited=False)
            return await assemble(await initialize(connected))

        numerics, exchange, _ = run_in_loop(assembled)
        topics = build_topics(numerics)
        row = np.zeros(sum(len(topic.signals) for topic in topics))
        RowWriter(numerics, exchange.channels, row).fill(1e-3, 0, 0)
        return numerics

    made(2)  # imports, compiled code and caches
    return made


def assert_linear(costs: list[int]) -> None:
    """Twice as many more subsystems cost twice as much more."""
    less, more = np.diff(costs)
    assert more == pytest.approx(2 * less, rel=0.05)


def lines(work: Callable[[], object]) -> int:
    """Lines of Python that a call runs, loops counted in every turn."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def peak(work: Callable[[], object]) -> int:
    """Most memory that a call has at a time, bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_work_grows_linearly(set_up):
    assert_linear([lines(lambda n=n: set_up(n)) for n in SIZES])


def test_memory_grows_linearly(set_up):
    # Beyond the sizes that are tried out, whose matrices have a bound; a dense matrix of the ports
    # of 300 masses would be a fifth of what they have in all. The least of three: threads that an
    # earlier test left, and what a first session imports, only add.
    less, more = (min(peak(lambda n=n: set_up(n)) for _ in range(3)) for n in (150, 300))
    assert more <= 2.05 * less


def test_tables_grow_linearly(set_up):
    sizes = []
    for n in SIZES:
        numerics = set_up(n)
        tables = [*blocks(numerics.plan), *blocks(numerics.state)]
        sizes.append(sum(array.nbytes for _, array in tables))
    less, more = np.diff(sizes)
    assert more == 2 * less


@pytest.mark.parametrize("n", [86, 87])
def test_many_outputs_are_not_tried_out_and_the_verdict_says_so(n, tmp_path):
    file = tmp_path / "chain.toml"
    file.write_text(chain(n, steps=5), encoding="utf-8")
    result = hilrt.simulate(file, record=False)
    assert result.fault is None
    left_out = [
        r for r in result.summary["reasons"] if r.startswith("sensitivities: they were left out")
    ]
    coupled = 3 * (n - 1)  # without the first one's motion and the last one's force
    assert len(left_out) == (coupled > MOST_TRIED)
    if left_out:
        assert f"at most {MOST_TRIED}" in left_out[0]
        assert result.verdict != "good"
