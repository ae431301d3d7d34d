"""Arming by hand over a real pipe."""

from __future__ import annotations

import asyncio
import io
import os

import pytest

from hilrt.errors import ConfigError
from hilrt.monitor.session_state import operator_arms


async def test_enter_arms() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stream:
        waiting = asyncio.ensure_future(operator_arms(stream))
        await asyncio.sleep(0)
        assert not waiting.done()
        os.write(write, b"\n")
        await asyncio.wait_for(waiting, 5.0)
    os.close(write)


async def test_end_of_input_does_not_arm() -> None:
    read, write = os.pipe()
    os.close(write)
    with os.fdopen(read) as stream, pytest.raises(ConfigError, match="--arm"):
        await asyncio.wait_for(operator_arms(stream), 5.0)


async def test_a_stream_without_descriptor_is_refused() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        await operator_arms(io.StringIO("\n"))
