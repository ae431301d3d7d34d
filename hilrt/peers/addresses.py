"""Addresses of this machine in text form."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

LOOPBACK = "127.0.0.1"
MAX_PORT = 65535


def is_port(text: str) -> bool:
    """Whether `text` is a port number that an address may contain."""
    return text.isascii() and text.isdecimal() and 0 < int(text) <= MAX_PORT


def is_number(host: str) -> bool:
    """Whether `host` is an IP address, not a name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    return host == "localhost" or (
        is_number(host) and ipaddress.ip_address(host.strip("[]")).is_loopback
    )


def parse_address(text: str) -> tuple[str, int]:
    """Parse ``ADDRESS:PORT``, or ``PORT`` on this machine only; `ValueError` if it is neither."""
    host, _, port = text.rpartition(":")
    if not is_port(port):
        raise ValueError(f"{text}: write it as ADDRESS:PORT or PORT, PORT from 1 to {MAX_PORT}")
    return host.strip("[]") or LOOPBACK, int(port)


def why_not_bound(address: str) -> OSError | None:
    """Reason why a ``[tcp://]ADDRESS:PORT`` or ``ipc://PATH`` cannot be bound; None if it can.

    Names, such as that of an interface, are not resolved.
    """
    if address.startswith("ipc://"):
        return _why_not_at(address.removeprefix("ipc://"))
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    host = "0.0.0.0" if host == "*" else host.strip("[]")
    if not is_port(port) or not is_number(host):
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bind(family, socket.SOCK_STREAM, (host, int(port))).close()
    except OSError as error:
        return error
    return None


def _why_not_at(path: str) -> OSError | None:
    """Reason for a path; a socket left behind by an earlier session does not prevent binding."""
    if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
        return OSError(errno.EACCES, "No writable folder")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            return error
    return OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def bind(family: int, kind: int, where: tuple[object, ...]) -> socket.socket:
    """A socket bound to an address; `OSError` while another socket listens there."""
    made = socket.socket(family, kind)
    try:
        if os.name == "posix":  # permits reuse after an earlier session, not during one
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(where)
    except OSError:
        made.close()
        raise
    return made
