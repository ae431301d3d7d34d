"""What drivers say of their controller, where python-can passes it on."""

from __future__ import annotations

import can

#: PCAN-Basic's status of a controller that is bus-off.
_PCAN_BUS_OFF = 0x10


def controller_off(interface: str, bus: can.BusABC) -> bool | None:
    """Whether the controller of a bus is bus-off; None where its driver does not say it."""
    try:
        if interface == "pcan":
            return bool(bus.status() & _PCAN_BUS_OFF)  # type: ignore[attr-defined]
        if interface == "ixxat":
            return bool(bus.state is can.BusState.ERROR)
    except Exception:  # drivers raise all kinds, and an interface may just be gone
        return None
    return None
