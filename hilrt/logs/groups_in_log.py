"""J1939 groups of several frames in a log, put together as if one frame had carried each."""

from __future__ import annotations

from hilrt.can.frame import EXTENDED, EXTENDED_MASK
from hilrt.can.j1939_transport import GroupAssembler
from hilrt.record.logged_frame import FrameFlag, LoggedFrame


class GroupsInLog:
    """Groups of all buses of a log."""

    def __init__(self) -> None:
        self._assemblers: dict[str, GroupAssembler] = {}

    @staticmethod
    def concerns(frame: LoggedFrame) -> bool:
        """Whether a data frame carries a part of a group."""
        extended = bool(frame.flags & FrameFlag.EXTENDED)
        return extended and GroupAssembler.concerns(EXTENDED | frame.identifier)

    def take(self, frame: LoggedFrame) -> LoggedFrame | None:
        """The group that a frame completes, with the frame's time; None if it completes none."""
        assembler = self._assemblers.get(frame.bus)
        if assembler is None:
            assembler = self._assemblers[frame.bus] = GroupAssembler()
        group = assembler.take(EXTENDED | frame.identifier, frame.data, frame.time_ns)
        if group is None:
            return None
        return frame._replace(
            identifier=group.can_id & EXTENDED_MASK, dlc=len(group.data), data=group.data
        )

    def notes(self) -> list[str]:
        """What did not come whole."""
        count = sum(assembler.incomplete for assembler in self._assemblers.values())
        text = "J1939 groups of several frames of which some are missing"
        return [f"{count:,} {text}"] if count else []
