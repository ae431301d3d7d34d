"""Datagrams that the kernel drops before they wake this process; Linux only.

A CAN controller filters by identifier and does not hand a node its own frames back. On
``udp_multicast`` a full bus would wake a gateway for every frame of everybody. The filter looks at
the source port, and at the identifier where python-can writes it; what is laid out otherwise is let
through, for the reader to judge.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

SO_ATTACH_FILTER = 26
#: The kernel takes no longer program.
MAX_INSTRUCTIONS = 4096

# Offsets count from the UDP header, which is 8 bytes long and begins with the source port.
_MAP = 8  # a map of eleven: the message
_KEY = 8 + 21  # "arbi", of the second key
_ID_TYPE = 8 + 35
_ID = 8 + 36
_SHORTEST = _ID + 4

# Classic BPF: operation, and how many instructions to skip if a comparison holds and if not.
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_LENGTH = 0x20, 0x28, 0x30, 0x80
_LOAD_SAVED, _SAVE, _AND = 0x60, 0x02, 0x54
_IF_EQUAL, _IF_GREATER, _IF_AT_LEAST, _JUMP, _RETURN = 0x15, 0x25, 0x35, 0x05, 0x06
_DROP, _KEEP = (_RETURN, 0, 0, 0), (_RETURN, 0, 0, 0xFFFFFFFF)

_Instruction = tuple[int, int, int, int]


def _unless(load: int, at: int, test: int, value: int) -> list[_Instruction]:
    """Keep the datagram unless what is loaded passes the test."""
    return [(load, 0, 0, at), (test, 1, 0, value), _KEEP]


def program(own_port: int | None, identifiers: Iterable[tuple[int, int]] | None) -> bytes:
    """Filter program.

    Parameters
    ----------
    own_port : int, optional
        Datagrams from that source port are dropped.
    identifiers : iterable of (int, int), optional
        Frames are kept whose identifier has the first number in the bits of the second.
        None: all of them.
    """
    steps: list[_Instruction] = []
    if own_port is not None:
        steps += [(_LOAD_HALF, 0, 0, 0), (_IF_EQUAL, 0, 1, own_port), _DROP]
    if identifiers is None:
        steps.append(_KEEP)
    else:
        steps += _unless(_LOAD_LENGTH, 0, _IF_AT_LEAST, _SHORTEST)
        steps += _unless(_LOAD_BYTE, _MAP, _IF_EQUAL, 0x8B)
        steps += _unless(_LOAD_WORD, _KEY, _IF_EQUAL, int.from_bytes(b"arbi", "big"))
        # A number of msgpack: up to 127 its own type, else 1, 2 or 4 bytes behind the type.
        steps += [
            (_LOAD_BYTE, 0, 0, _ID_TYPE),
            (_IF_GREATER, 0, 9, 0x7F),
            *((_IF_EQUAL, 0, 2, 0xCC), (_LOAD_BYTE, 0, 0, _ID), (_JUMP, 0, 0, 6)),
            *((_IF_EQUAL, 0, 2, 0xCD), (_LOAD_HALF, 0, 0, _ID), (_JUMP, 0, 0, 3)),
            *((_IF_EQUAL, 1, 0, 0xCE), _KEEP, (_LOAD_WORD, 0, 0, _ID)),
            (_SAVE, 0, 0, 0),
        ]
        for value, mask in identifiers:
            steps += [(_AND, 0, 0, mask), (_IF_EQUAL, 0, 1, value & mask), _KEEP]
            steps.append((_LOAD_SAVED, 0, 0, 0))
        steps.append(_DROP)
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def attach(receiver: socket.socket, filter_program: bytes) -> bool:
    """Have the kernel filter what that socket receives; whether it does."""
    count = len(filter_program) // 8
    if sys.platform != "linux" or count > MAX_INSTRUCTIONS:
        return False
    buffer = ctypes.create_string_buffer(filter_program)
    described = struct.pack("@HP", count, ctypes.addressof(buffer))
    with suppress(OSError):
        receiver.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, described)
        return True
    return False
