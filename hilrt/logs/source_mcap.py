"""Our own logs as a source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hilrt.errors import RecordError
from hilrt.logs.columns import columns_of
from hilrt.logs.log_file import LogFile
from hilrt.logs.source import Source
from hilrt.record.logged_frame import LoggedFrame
from hilrt.record.messages import REPORT_STATISTICS, Attachment, Topic
from hilrt.record.reader import Block, LogStream


class McapSource(Source):
    """A recorded session, or an imported file."""

    kind = "hilrt log"

    def topics(self) -> list[Topic]:
        """Topics of the log: they stand in its first chunks."""
        from hilrt.logs.contents import read_contents

        try:
            contents = read_contents(self.path)
        except RecordError as error:
            raise self.fail(str(error).removeprefix(f"{self.path}: ")) from None
        self._note_epoch(contents.metadata)
        return [Topic(entry.name, entry.signals) for entry in contents.topics if entry.signals]

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows, about a second of each topic in turn."""
        stream = LogStream(self.path)
        if not self.topics():
            return
        for block in stream.blocks():
            kept = columns_of(block, wanted)
            if kept is not None:
                yield kept
        if stream.damage:
            self._note_damage(stream.damage)
        self._note_epoch(stream.metadata)

    def _note_epoch(self, metadata: Mapping[str, str]) -> None:
        known = metadata.get("epoch_ns")
        self.epoch_ns = int(known) if known else None

    def frames(self) -> Iterator[LoggedFrame]:
        """Frames on all buses."""
        log = LogFile(self.path)
        yield from log.frames()
        if log.damage:
            self._note_damage(log.damage)

    def _note_damage(self, damage: str) -> None:
        note = f"its end: the log is not whole: {damage}"
        if note not in self.notes:
            self.notes.append(note)

    def attachments(self) -> list[Attachment]:
        """Session file, databases, summary, …"""
        from hilrt.logs.contents import read_attachments

        return [a for a in read_attachments(self.path) if a.name != REPORT_STATISTICS]

    def metadata(self) -> dict[str, str]:
        """Facts about the session."""
        from hilrt.logs.contents import read_contents

        return read_contents(self.path).metadata
