"""The waiter over a real pipe."""

from __future__ import annotations

import asyncio
import os

from hilrt.exchange.waiter import Waiter


async def test_a_readable_descriptor_ends_the_wait() -> None:
    read, write = os.pipe()
    waiter = Waiter([read], again_s=30.0)
    try:
        asyncio.get_running_loop().call_soon(os.write, write, b"x")
        await asyncio.wait_for(waiter.wait(lambda: True), 5.0)
        assert os.read(read, 1) == b"x"
    finally:
        waiter.close()
        os.close(read)
        os.close(write)


async def test_nothing_is_waited_for_that_is_already_there() -> None:
    waiter = Waiter([], again_s=30.0)
    looks = []

    def nothing() -> bool:
        looks.append(1)
        return False

    await asyncio.wait_for(waiter.wait(nothing), 5.0)
    assert looks == [1]
    waiter.close()


async def test_it_looks_again_unasked() -> None:
    waiter = Waiter([], again_s=0.001)
    looks = []

    def look() -> bool:
        looks.append(1)
        return True

    await asyncio.wait_for(waiter.wait(look), 5.0)
    assert looks == [1]
    waiter.close()


async def test_a_beginning_that_blocks_takes_what_comes_without_a_pass_through_the_loop() -> None:
    read, write = os.pipe()
    waiter = Waiter([read], again_s=30.0, block_s=5.0)
    passes: list[int] = []
    asyncio.get_running_loop().call_soon(passes.append, 1)
    try:
        os.write(write, b"x")
        await waiter.wait(lambda: True)
        assert passes == []
    finally:
        waiter.close()
        os.close(read)
        os.close(write)


async def test_a_wait_that_is_longer_than_its_blocking_beginning_lets_others_run() -> None:
    read, write = os.pipe()
    waiter = Waiter([read], again_s=30.0, block_s=0.001)
    try:
        asyncio.get_running_loop().call_soon(os.write, write, b"x")
        await asyncio.wait_for(waiter.wait(lambda: True), 5.0)
        assert os.read(read, 1) == b"x"
    finally:
        waiter.close()
        os.close(read)
        os.close(write)
