"""Example messages of docs/protocol.md: writes their bytes into the page.

    python tools/protocol_examples.py

A test compares the page with `hilrt.peers.wire.encode`.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

from hilrt.peers import wire

PAGE = Path(__file__).parents[1] / "docs" / "protocol.md"


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


EXAMPLES: dict[str, wire.Message] = {
    "hello": wire.Hello(
        version=1,
        role="solver",
        name="vehicle",
        inputs=[wire.PortInfo(name="torque", unit="N*m")],
        outputs=[wire.PortInfo(name="speed", unit="rad/s", feedthrough=["torque"])],
    ),
    "welcome": wire.Welcome(session="demo", heartbeat_s=0.2),
    "reject": wire.Reject(reason="no"),
    "initialize": wire.Initialize(t0=0.0, u0=floats(1.5)),
    "initialized": wire.Initialized(y=floats(80.0)),
    "advance": wire.Advance(tick=7, t=0.007, h=0.001, coefficients=floats(1.5, -20.0)),
    "advanced": wire.Advanced(tick=7, y=floats(80.25), compute_us=12.5),
    "advanced, with middle and mean": wire.Advanced(
        tick=7, y=floats(80.25), y_mid=floats(80.5), y_mean=floats(80.75), compute_us=12.5
    ),
    "set parameter": wire.SetParameter(name="mass", value=1200.0),
    "heartbeat, asking": wire.Heartbeat(sent_ns=1_000_000_000),
    "heartbeat, answering": wire.Heartbeat(sent_ns=6_000_050_000, echo_ns=1_000_000_000),
    "error": wire.Error(text="diverged"),
    "stop": wire.Stop(reason="finished"),
    "stopped": wire.Stopped(),
}

_BLOCK = re.compile(r"(Example: ([a-z, ]+)\n\n```text\n)([0-9a-f\s]*)(```)")


def documented(text: str) -> dict[str, bytes]:
    """Examples of the page, by name."""
    return {match[2]: bytes.fromhex(match[3]) for match in _BLOCK.finditer(text)}


def lines(data: bytes) -> str:
    rows = [data[i : i + 24].hex(" ") for i in range(0, len(data), 24)]
    return "\n".join(rows) + "\n"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    written = _BLOCK.sub(
        lambda match: match[1] + lines(wire.encode(EXAMPLES[match[2]])) + match[4], text
    )
    PAGE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
