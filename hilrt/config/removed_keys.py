"""Keys that earlier session files had: each is refused with the reason for its removal."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: Dotted name of a key, and the reason for its removal.
REMOVED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "master.pacing.draft": "the macro step is always made at its tick, because in ten "
        "pairs of whole sessions no fewer ticks were missed with drafts made before it",
        "master.pacing.latch": "a tick takes in everything that has arrived by then, because "
        "in ten pairs of whole sessions no fewer ticks were missed with drafts and a latch",
        "master.pacing.same_layout": "subsystems' processes keep the random addresses that the "
        "system gives them, which make faulty code harder to attack",
    }
)
