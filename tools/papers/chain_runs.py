"""Runs of the reduced long chain; finished runs are stored as lines of a file.

An interrupted study therefore continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def chain_parser(
    description: str, out: str, segments: int, masses: int, duration: float
) -> argparse.ArgumentParser:
    """Options of a study: its file and the size of its chain (duration in s)."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--segments", type=int, default=segments)
    parser.add_argument("--masses", type=int, default=masses)
    parser.add_argument("--duration", type=float, default=duration, metavar="S")
    return parser


class ChainRuns:
    """Runs of a study with the options of `chain_parser`."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._out: Path = options.out
        self._size = {name: getattr(options, name) for name in ("segments", "masses", "duration")}
        self._out.parent.mkdir(parents=True, exist_ok=True)
        lines = self._out.read_text().splitlines() if self._out.exists() else []
        self._done: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def get(self, run: Callable[..., dict[str, Any]], **case: Any) -> Mapping[str, Any]:
        """Result of a case with the chain's size: from the file, or run now and stored in it."""
        case |= self._size
        for one in self._done:
            if case.items() <= one.items():
                return one
        found = run(**case) | self._size
        with self._out.open("a") as file:
            file.write(json.dumps(found) + "\n")
        return found
