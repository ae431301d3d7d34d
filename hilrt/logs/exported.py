"""What an export to another tool's format wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Exported:
    """What an export wrote, and what it left out."""

    path: Path
    rows: int = 0
    frames: int = 0
    signals: int = 0
    notes: list[str] = field(default_factory=list)
