"""CAN messages: used by the gateway, emulated benches, logs and tools.

In reading order:

* a frame and its message: `frame` (with error frames and python-can's errors), `id_table` (message
of a frame; containers), `database` with `read_database` and `tolerant_loading`, `codec` (signals to
bytes and back), `frame_decoder` (signals of recorded frames);
* messages in and out: `protection` (checksums, counters, options of a message), `receiver` with
`received_message`, `device_clock`, `j1939_transport` and `message_stats`, `sender`;
* the wire: `bus` with `bus_keys`, `socketcan` and `udp_multicast`, `bus_faults` (error frames,
bus-off).

The folder `tools` contains the functions of ``hilrt can``. Other packages import python-can from
this one.
"""

import sys

# If asammdf is installed, python-can imports it for a reader of MF4 files: 1.9 s of processor
# time at the start of every gateway. This package reads such files with asammdf itself.
if "can" not in sys.modules and "asammdf" not in sys.modules:
    sys.modules["asammdf"] = None  # type: ignore[assignment]  # python-can: "not installed"
    try:
        import can as can
    finally:
        del sys.modules["asammdf"]
else:
    import can as can
