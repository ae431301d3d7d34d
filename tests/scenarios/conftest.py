"""Scenarios run in processes of their own, against the wall clock."""

from collections.abc import Iterator

import pytest

from hilrt.session.running import load_numerics
from tests.scenarios.fork_server import close_server


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Compile the kernels once: processes that start together would do it all at a time."""
    load_numerics()


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> Iterator[None]:
    """What scenarios have started is ended with the last of them."""
    yield
    close_server()
