"""The order in which views show outputs: what the session file names, the benches', the others."""

from __future__ import annotations

from collections.abc import Sequence

from hilrt.config.read_values import names_channel
from hilrt.errors import ConfigError


def display_order(
    names: Sequence[str], of_benches: Sequence[bool], chosen: Sequence[str]
) -> list[int]:
    """Numbers of the outputs, in the order in which they are shown.

    Parameters
    ----------
    names : sequence of str
        Channels of the outputs.
    of_benches : sequence of bool
        For each, whether it is measured on a bench.
    chosen : sequence of str
        ``[monitor] values``: channels, ports, or patterns of them. `ConfigError` for one that names
        no output.
    """
    order: list[int] = []
    for pattern in chosen:
        found = [i for i, name in enumerate(names) if names_channel(pattern, name)]
        if not found:
            known = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            raise ConfigError(
                f"[monitor] values = {pattern!r}: is no output; there are {known or 'none'}"
            )
        order += [i for i in found if i not in order]
    rest = [i for i in range(len(names)) if i not in set(order)]
    return order + sorted(rest, key=lambda i: not of_benches[i])


def shown_values(values: dict[str, float], chosen: Sequence[str]) -> dict[str, float]:
    """Those of the values that the session file names; all where it names none."""
    if not chosen:
        return values
    return {
        name: value
        for name, value in values.items()
        if any(names_channel(pattern, name) for pattern in chosen)
    }
