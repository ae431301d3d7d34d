"""Assign a log's frames to messages, and the messages to topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hilrt.can.frame import EXTENDED, EXTENDED_MASK, Frame
from hilrt.can.frame_decoder import FrameDecoder, distinct_names
from hilrt.can.id_table import IdTable, is_j1939, unpack, without_priority
from hilrt.can.j1939_transport import GroupAssembler
from hilrt.can.tools.session_draft import reason
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.messages import Signal, Topic

if TYPE_CHECKING:
    from cantools.database.can import Message


class GroupsInLog:
    """Assembly of J1939 groups from frames, for all buses of a log."""

    def __init__(self) -> None:
        self._assemblers: dict[str, GroupAssembler] = {}

    @staticmethod
    def concerns(frame: LoggedFrame) -> bool:
        """Whether a data frame carries a part of a group."""
        extended = bool(frame.flags & FrameFlag.EXTENDED)
        return extended and GroupAssembler.concerns(EXTENDED | frame.identifier)

    def add(self, frame: LoggedFrame) -> LoggedFrame | None:
        """Add a frame; return the group that it completes, with its time, or None."""
        assembler = self._assemblers.get(frame.bus)
        if assembler is None:
            assembler = self._assemblers[frame.bus] = GroupAssembler()
        group = assembler.receive(EXTENDED | frame.identifier, frame.data, frame.time_ns)
        if group is None:
            return None
        return frame._replace(
            identifier=group.can_id & EXTENDED_MASK, dlc=len(group.data), data=group.data
        )

    def notes(self) -> list[str]:
        """Notes on incomplete groups."""
        count = sum(assembler.incomplete for assembler in self._assemblers.values())
        text = "J1939 groups of several frames of which some are missing"
        return [f"{count:,} {text}"] if count else []


#: Maximum number of unknown identifiers in a note.
MAX_NAMED = 5
#: Flags of frames without message data.
NO_DATA = int(FrameFlag.ERROR | FrameFlag.REMOTE)
_EXTENDED = int(FrameFlag.EXTENDED)  # as int: operators of enumerations are slow


class MessageTopic(NamedTuple):
    """Message of one sender on one bus, with the identifier that arrived first."""

    message: Message
    topic: Topic
    bus: str
    identifier: int


class BusMessages(Protocol):
    """Messages by bus; see `LoadedDatabases`."""

    def on_bus(self, bus: str) -> list[Message] | None:
        """Messages on a bus; None without a database."""
        ...

    def lost(self, buses: Collection[str]) -> list[str]:
        """Notes on buses with a database of their own that are not among `buses`."""
        ...


class MessageTopics:
    """Topics of the frames, each created at its first frame.

    Each sender of a J1939 group has its own topic, and so has a message on each bus. The first
    topic has the name of the message; further ones add ``@BUS``, ``@IDENTIFIER`` or both, where
    these differ.

    Parameters
    ----------
    databases : BusMessages

    Attributes
    ----------
    found : list of MessageTopic
    frames, unknown : int
        Number of data frames, and of those whose identifiers are not in the databases.
    """

    def __init__(self, databases: BusMessages) -> None:
        self.found: list[MessageTopic] = []
        self.frames = self.unknown = 0
        self._databases = databases
        self._tables: dict[str, IdTable[Message] | None] = {}
        self._by_frame: dict[tuple[str, int], MessageTopic | None] = {}
        self._by_sender: dict[tuple[str, int, int], MessageTopic] = {}
        self._first_bus: dict[str, str] = {}
        self._unknown_ids: dict[str, None] = {}
        self._groups = GroupsInLog()
        self._with_groups: set[str] = set()  # buses with J1939 messages, by their database
        self._damaged: Counter[str] = Counter()
        self._unknown_headers: Counter[str] = Counter()
        self._without_database: Counter[str] = Counter()
        self._ambiguous: Counter[tuple[str, ...]] = Counter()

    def parts(self, frame: LoggedFrame) -> list[tuple[MessageTopic, bytes]]:
        """Messages that a data frame contains or completes, with their bytes.

        Usually one; for a container, its messages; for the last frame of a J1939 group, the group.
        """
        self.frames += 1
        parts = self._parts(frame)
        if GroupsInLog.concerns(frame) and frame.bus in self._with_groups:
            group = self._groups.add(frame)
            if group is not None:
                parts += self._parts(group)
        return parts

    def _parts(self, frame: LoggedFrame) -> list[tuple[MessageTopic, bytes]]:
        found = self.find(frame)
        if found is None:
            return []
        if not found.message.is_container:
            return [(found, frame.data)]
        try:
            inner = unpack(found.message, frame.data)
        except ValueError:
            self._damaged[found.message.name] += 1
            return []
        parts = []
        for message, data in inner:
            if isinstance(message, int):
                self._unknown_headers[found.message.name] += 1
            else:
                topic = self._topic(message, frame.bus, frame.identifier)
                parts.append((topic, data))
        return parts

    def find(self, frame: LoggedFrame) -> MessageTopic | None:
        """Topic of a data frame; None if the databases have no message for it."""
        can_id = frame.identifier | (EXTENDED if frame.flags & _EXTENDED else 0)
        key = frame.bus, can_id
        try:
            found = self._by_frame[key]
        except KeyError:
            found = self._by_frame[key] = self._identify(frame.bus, can_id)
        if found is None:
            self._count(frame.bus, can_id)
        return found

    def _identify(self, bus: str, can_id: int) -> MessageTopic | None:
        table = self._table(bus)
        message = None if table is None else table.find(can_id)
        if message is None:
            return None
        return self._topic(message, bus, Frame(can_id, b"").identifier)

    def _topic(self, message: Message, bus: str, identifier: int) -> MessageTopic:
        sender = without_priority(message, identifier)
        known = self._by_sender.get((bus, id(message), sender))
        if known is None:
            suffix = self._suffix(message.name, bus, identifier)
            topic = message_topic(message, identifier, suffix)
            known = MessageTopic(message, topic, bus, identifier)
            self._by_sender[bus, id(message), sender] = known
            self.found.append(known)
        return known

    def _suffix(self, name: str, bus: str, identifier: int) -> str:
        taken = {known.topic.name for known in self.found}
        first_bus = self._first_bus.setdefault(name, bus)
        suffix = "" if bus == first_bus else f"@{bus}"
        return f"{suffix}@{identifier:X}" if name + suffix in taken else suffix

    def _table(self, bus: str) -> IdTable[Message] | None:
        if bus not in self._tables:
            messages = self._databases.on_bus(bus)
            entries = ((m, m) for m in messages or ())
            self._tables[bus] = None if messages is None else IdTable(entries)
            if any(map(is_j1939, messages or ())):
                self._with_groups.add(bus)
        return self._tables[bus]

    def _count(self, bus: str, can_id: int) -> None:
        table = self._tables[bus]
        if table is None:
            self._without_database[bus] += 1
        elif names := tuple(message.name for message in table.candidates(can_id)):
            if len(names) > 1:
                self._ambiguous[names] += 1
        elif not GroupAssembler.concerns(can_id):
            self.unknown += 1
            self._unknown_ids.setdefault(Frame(can_id, b"").text)

    def notes(self) -> list[str]:
        """Notes on ambiguous or unknown frames, once all frames have been looked up."""
        notes = self._databases.lost(self._tables)
        notes += [
            f"{count:,} frames on bus {bus!r}, for which no database was given"
            for bus, count in self._without_database.items()
        ]
        notes += [
            f"{count:,} frames that may be message {' or '.join(names)}: the database does not "
            "distinguish them by their identifiers, so they stay frames"
            for names, count in self._ambiguous.items()
        ]
        notes += self._groups.notes()
        notes += [
            f"{count:,} frames of container {name} whose messages extend beyond them"
            for name, count in self._damaged.items()
        ]
        notes += [
            f"{count:,} messages in container {name} that the database does not know"
            for name, count in self._unknown_headers.items()
        ]
        if 2 * self.unknown > self.frames:
            names = list(self._unknown_ids)
            more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
            notes.append(
                f"{self.unknown:,} of {self.frames:,} frames are of messages that the database "
                f"does not know ({', '.join(names[:MAX_NAMED])}{more}): does it belong to this log?"
            )
        return notes


def message_topic(message: Message, identifier: int, suffix: str = "") -> Topic:
    """Topic of a message, with the identifier of its frames."""
    source = f"{message.name} 0x{identifier:X}"
    return Topic(
        message.name + suffix,
        [
            Signal(f"{message.name}{suffix}.{s.name}", s.unit or "", source, s.comment or "")
            for s in map(message.get_signal_by_name, distinct_names(message))
        ],
    )


class TopicDecoders:
    """Decoders of messages, each created at its first use."""

    def __init__(self) -> None:
        self._decoders: dict[int, FrameDecoder | None] = {}
        self._problems: list[str] = []

    def decode(self, message: Message, data: bytes) -> list[float] | None:
        """Values of the signals of the topic; None if the message cannot be decoded."""
        decoder = self._of(message)
        return None if decoder is None else decoder.decode(data)

    def _of(self, message: Message) -> FrameDecoder | None:
        try:
            return self._decoders[id(message)]
        except KeyError:
            pass
        decoder = None
        try:
            decoder = FrameDecoder(message)
        except Exception as error:  # errors in a database can cause any exception
            text = f"message {message.name} cannot be decoded: {reason(message, error)}"
            self._problems.append(text)
        twice = {signal.name for signal in message.signals} - set(distinct_names(message))
        self._problems += [
            f"several signals {name} of message {message.name}, which cannot be distinguished"
            for name in sorted(twice)
        ]
        self._decoders[id(message)] = decoder
        return decoder

    def notes(self) -> list[str]:
        """Notes on messages and signals that could not be decoded or distinguished."""
        made = [decoder for decoder in self._decoders.values() if decoder is not None]
        return self._problems + [
            text for decoder in made for text in decoder.counts.texts(decoder.message.name)
        ]
