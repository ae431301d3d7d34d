"""Scenarios run in processes of their own, against the wall clock."""

import pytest

from hilrt.session.running import load_numerics


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Compile the kernels once: processes that start together would do it all at a time."""
    load_numerics()
