"""The states of a session's life."""

from __future__ import annotations

from enum import StrEnum


class SessionState(StrEnum):
    """Where a session is in its life; docs/session.md draws what leads from one to the next."""

    CONFIGURED = "CONFIGURED"
    CONNECTING = "CONNECTING"
    INITIALIZED = "INITIALIZED"
    ARMED = "ARMED"
    RUNNING = "RUNNING"
    DEGRADED = "DEGRADED"
    STOPPING = "STOPPING"
    SAFE = "SAFE"
    STOPPED = "STOPPED"
    FAULT = "FAULT"
