"""Reassembly of J1939 parameter groups sent in several frames (SAE J1939-21, 5.10).

The transport protocol is only observed, for broadcast groups (BAM) and those sent to one node
(RTS/CTS): neither a clear-to-send nor an acknowledgement or an abort is sent. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hilrt.can.frame import ERROR, EXTENDED, REMOTE

#: PDU formats of connection management (TP.CM) and of data transfer (TP.DT).
MANAGEMENT, TRANSFER = 0xEC, 0xEB
#: Bits of an identifier that mark a frame of the transport protocol.
_FORMAT_BITS = EXTENDED | REMOTE | ERROR | 0x03FF0000
_MANAGEMENT_ID = EXTENDED | MANAGEMENT << 16
_TRANSFER_ID = EXTENDED | TRANSFER << 16
#: Control bytes of TP.CM.
_RTS, _CTS, _ACKNOWLEDGED, _BROADCAST, _ABORT = 16, 17, 19, 32, 255
#: Destination address of messages for all nodes.
_ALL = 0xFF
#: Bytes of a group that fit in one frame, and maximum bytes of a group.
ONE_FRAME, LONGEST = 8, 1785
#: Bytes of a group in each packet.
_PACKET = 7
#: Silence after which a transfer is abandoned, ns: of the sender of a broadcast (T1), or in both
#: directions of a transfer to one node (T2, T3).
BROADCAST_NS, CONNECTION_NS = 750_000_000, 1_250_000_000
#: Maximum simultaneous transfers; noise must not exhaust the memory.
_MAX_TRANSFERS = 256
#: Longest permitted pause between two packets (Tr), s.
PACKET_S = 0.2


class ParameterGroup(NamedTuple):
    """A parameter group that arrived in several frames.

    Attributes
    ----------
    can_id : int
        Identifier that a single frame would have: priority of the announcement, group, destination
        if the group has one, source.
    data : bytes
        9 to 1785 bytes.
    announced_ns, complete_ns : int
        Reception of its first and its last frame. The values are as old as the first.
    """

    can_id: int
    data: bytes
    announced_ns: int
    complete_ns: int


class _Transfer:
    """A group being transferred."""

    def __init__(self, can_id: int, length: int, t_ns: int) -> None:
        self.can_id = can_id
        self.length = length
        self.announced_ns = self.heard_ns = t_ns
        self.packets: list[bytes | None] = [None] * -(-length // _PACKET)
        self.missing = len(self.packets)


def transfer_time(length: int) -> float:
    """Maximum transfer time of a group of `length` bytes, s; 0 if it fits in one frame."""
    return PACKET_S * -(-length // _PACKET) if length > ONE_FRAME else 0.0


def filters() -> list[dict[str, int | bool]]:
    """Filters for python-can that pass the transport protocol."""
    return [
        {"can_id": format_ << 16, "can_mask": 0x03FF0000, "extended": True}
        for format_ in (MANAGEMENT, TRANSFER)
    ]


class GroupAssembler:
    """Assembler of groups from the frames of one bus.

    Parameters
    ----------
    wanted : callable, optional
        Whether a group is of interest, by its resulting `can_id`; default: all are.

    Attributes
    ----------
    complete : int
        Groups received completely.
    incomplete : int
        Groups with a lost packet, aborted groups, and groups that ended early.
    strays : int
        Packets without the beginning of their group, and frames that violate the protocol.
    """

    def __init__(self, wanted: Callable[[int], object] = lambda can_id: True) -> None:
        self.complete = self.incomplete = self.strays = 0
        self._wanted = wanted
        self._transfers: dict[tuple[int, int], _Transfer] = {}  # by source and destination

    @staticmethod
    def concerns(can_id: int) -> bool:
        """Whether a frame belongs to the transport protocol."""
        return can_id & _FORMAT_BITS in (_MANAGEMENT_ID, _TRANSFER_ID)

    def receive(self, can_id: int, data: bytes, t_ns: int) -> ParameterGroup | None:
        """Process a frame; return the group that it completes, if any.

        Parameters
        ----------
        can_id : int
            As `Frame.can_id`; frames of other kinds are ignored.
        data : bytes
        t_ns : int
            Time of reception, ns, on any clock.
        """
        kind = can_id & _FORMAT_BITS
        if kind == _TRANSFER_ID:
            return self._packet(can_id, data, t_ns)
        if kind == _MANAGEMENT_ID:
            self._manage(can_id, data, t_ns)
        return None

    # ---- connection management ---------------------------------------------------------------

    def _manage(self, can_id: int, data: bytes, t_ns: int) -> None:
        source, destination = can_id & 0xFF, can_id >> 8 & 0xFF
        if len(data) < ONE_FRAME:
            self.strays += 1
            return
        control = data[0]
        if control in (_RTS, _BROADCAST):
            self._begin(can_id, data, t_ns)
        elif control == _CTS:  # from the receiver, which may request packets again, or a pause
            transfer = self._transfers.get((destination, source))
            if transfer is not None:
                transfer.heard_ns = t_ns
        elif control == _ACKNOWLEDGED:
            self._abandon((destination, source))
        elif control == _ABORT:  # from either side
            self._abandon((destination, source))
            self._abandon((source, destination))
        else:
            self.strays += 1

    def _begin(self, can_id: int, data: bytes, t_ns: int) -> None:
        source, destination = can_id & 0xFF, can_id >> 8 & 0xFF
        length, packets = data[1] | data[2] << 8, data[3]
        group = data[5] | data[6] << 8 | data[7] << 16
        to_all = destination == _ALL
        if (
            not ONE_FRAME < length <= LONGEST
            or packets != -(-length // _PACKET)
            or group > 0x3FFFF
            or to_all != (data[0] == _BROADCAST)
        ):
            self.strays += 1
            return
        whole = can_id & (EXTENDED | 0x1C000000) | group << 8 | source
        if group >> 8 & 0xFF < 240:  # a group for one node has the address in the identifier
            whole |= destination << 8
        self._abandon((source, destination))  # a node has only one transfer at a time to another
        if not self._wanted(whole):
            return
        if len(self._transfers) >= _MAX_TRANSFERS:
            self._forget(t_ns)
        self._transfers[source, destination] = _Transfer(whole, length, t_ns)

    def _forget(self, t_ns: int) -> None:
        """Abandon transfers that have been silent for too long, or the oldest one."""
        for key in list(self._transfers):
            if self._is_over(key, t_ns):
                self._abandon(key)
        if len(self._transfers) >= _MAX_TRANSFERS:
            self._abandon(next(iter(self._transfers)))

    def _abandon(self, key: tuple[int, int]) -> None:
        if self._transfers.pop(key, None) is not None:
            self.incomplete += 1

    def _is_over(self, key: tuple[int, int], t_ns: int) -> bool:
        limit = BROADCAST_NS if key[1] == _ALL else CONNECTION_NS
        return t_ns - self._transfers[key].heard_ns > limit

    # ---- data transfer -----------------------------------------------------------------------

    def _packet(self, can_id: int, data: bytes, t_ns: int) -> ParameterGroup | None:
        key = can_id & 0xFF, can_id >> 8 & 0xFF
        transfer = self._transfers.get(key)
        if transfer is not None and self._is_over(key, t_ns):
            self._abandon(key)
            transfer = None
        if transfer is None or len(data) < 2:
            self.strays += 1
            return None
        number, count = data[0], len(transfer.packets)
        expected = min(_PACKET, transfer.length - _PACKET * (number - 1))
        if not 0 < number <= count or len(data) - 1 < expected:
            self._abandon(key)
            return None
        transfer.heard_ns = t_ns
        if key[1] == _ALL and number > 1 + count - transfer.missing:
            self._abandon(key)  # a packet was lost, and a broadcast is not repeated
            return None
        if transfer.packets[number - 1] is None:
            transfer.missing -= 1
        transfer.packets[number - 1] = data[1 : 1 + expected]  # if repeated, the newest is used
        if transfer.missing:
            return None
        del self._transfers[key]
        self.complete += 1
        body = b"".join(packet for packet in transfer.packets if packet is not None)
        return ParameterGroup(transfer.can_id, body, transfer.announced_ns, t_ns)
