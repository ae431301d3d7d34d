"""python-can's own reader of MF4 files, which the product loads python-can without."""

import importlib

import can.io.mf4
import pytest


@pytest.fixture(autouse=True, scope="session")
def _python_can_reads_mf4() -> None:
    importlib.reload(can.io.mf4)
