"""Messages on a CAN bus: used by the gateway, emulated benches, logs and tools.

Read in this order: `frame` and `id_table` (what arrives, and which message it is), `database` and
`tolerant_loading` (messages and signals by name), `codec` (signals to bytes and back), `protection`
and `message_options` (checksums, counters, times), `receiver` with `forms`, `sender`, `bus` with
`bus_keys`, `socketcan` and `udp_multicast` (the wire), `bus_faults`, `sender_conflicts`. The
folder `tools` has what ``hilrt can`` does for its user.
"""
