"""Messages on a CAN bus: used by the gateway, emulated benches, logs and tools.

Read in this order: `frame` and `id_table` (what arrives, and which message it is), `database` with
`read_database`, `identifier_faults`, `bit_counts`, `number_faults` and `tolerant_loading` (messages
and signals by name), `codec` (signals to bytes and back) and `frame_decoder` (what recorded frames
carry), `protection` and `message_options` (checksums, counters, times), `receiver` with
`received_message`, `container` with `received_container`, `forms`, `j1939_transport`,
`reception_time`, `message_stats` and `refused_frames`, `measured_port` (declared ranges), `sender`,
`bus` with `bus_keys`, `host_interface`, `python_can`, `socketcan`, `udp_multicast` and
`loopback_bus` (the wire), `bus_faults` with `error_frames`, `controller_state`, `bus_off` and
`socketcan_restart`, `sender_conflicts`. The folder `tools` has what ``hilrt can`` does for its
user. Other rooms import python-can from here and its errors from `library_errors`.
"""

import sys

# Wherever asammdf is installed, python-can imports it for a reader of MF4 files: 1.9 s of processor
# time at the start of every gateway. This package reads such files with asammdf itself.
if "can" not in sys.modules and "asammdf" not in sys.modules:
    sys.modules["asammdf"] = None  # type: ignore[assignment]  # python-can: "not installed"
    try:
        import can as can
    finally:
        del sys.modules["asammdf"]
else:
    import can as can
