"""Names of ports in a session file that stand for several channels."""

from __future__ import annotations

from fnmatch import fnmatchcase


def names_channel(pattern: str, channel: str) -> bool:
    """Whether a pattern means a channel: by its name, or by its port's for all elements."""
    if pattern == channel:  # an element's brackets are no choice of letters
        return True
    return fnmatchcase(channel, pattern) or fnmatchcase(channel.partition("[")[0], pattern)
