"""Recording of a session, from the socket that the recorder connects to to the closed log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hilrt.isolation.temporary_folder import LocalAddresses
from hilrt.record import frame_feed
from hilrt.record.recorder_feed import close_feed_socket, open_feed_socket
from hilrt.session.processes import Processes, RecorderSockets

if TYPE_CHECKING:
    from pathlib import Path

    from hilrt.session.assembly import InitializedSession
    from hilrt.session.session_log import SessionLog
    from hilrt.step.numerics import Numerics


class SessionRecording:
    """The part of a session that is recorded.

    Parameters
    ----------
    local : LocalAddresses
        Of the session; the recorder's sockets have theirs there.

    Attributes
    ----------
    log : SessionLog or None
        Once the numerics are known.
    """

    def __init__(self, local: LocalAddresses) -> None:
        self._local = local
        self._feed, self._progress = local.get("feed"), local.get("progress")
        self._frames = local.get("frames")
        self._socket = open_feed_socket(self._feed)
        self.log: SessionLog | None = None

    @property
    def frames(self) -> Mapping[str, str]:
        """Environment that says where CAN frames are taken."""
        return {frame_feed.VARIABLE: self._frames, **self._local.environment}

    def start(self, processes: Processes, cpus: Sequence[int], tap: str) -> None:
        """Start the recorder's process; `tap` is the address where views get the rows."""
        sockets = RecorderSockets(self._feed, tap, self._frames, self._progress)
        processes.start_recorder(sockets, cpus, self._local.environment)

    def open_log(
        self, folder: Path, numerics: Numerics, initialized: InitializedSession, real_time: bool
    ) -> SessionLog:
        """Open the log, with everything that it is to be replayed from."""
        from hilrt.session.session_log import SessionLog  # imports the numerics

        file, links, _ = initialized.connected
        self.log = SessionLog(
            file,
            folder,
            links,
            numerics,
            initialized,
            self._socket,
            self._progress,
            real_time=real_time,
        )
        return self.log

    async def end(self, processes: Processes, summary: dict[str, Any]) -> None:
        """Hand the end of the log over, if one was opened."""
        if self.log is None:
            close_feed_socket(self._socket)
        else:
            processes.resume_recorder()
            await self.log.end(summary)

    async def close(self, failed: bool) -> list[str]:
        """After the recorder's end: what was lost, in words."""
        return [] if self.log is None else await self.log.close(failed=failed)
