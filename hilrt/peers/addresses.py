"""Addresses of this machine, as people write them."""

from __future__ import annotations

import ipaddress

LOOPBACK = "127.0.0.1"
MAX_PORT = 65535


def is_port(text: str) -> bool:
    """Whether it is the number of a port that can be named."""
    return text.isascii() and text.isdecimal() and 0 < int(text) <= MAX_PORT


def is_number(host: str) -> bool:
    """Whether it is an IP address, and no name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    return host == "localhost" or (
        is_number(host) and ipaddress.ip_address(host.strip("[]")).is_loopback
    )


def parse_address(text: str) -> tuple[str, int]:
    """``ADDRESS:PORT``, or ``PORT`` on this machine alone; `ValueError` if it is neither."""
    host, _, port = text.rpartition(":")
    if not is_port(port):
        raise ValueError(f"{text}: write it as ADDRESS:PORT or PORT, PORT from 1 to {MAX_PORT}")
    return host.strip("[]") or LOOPBACK, int(port)
