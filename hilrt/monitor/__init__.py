"""Live views of a running session, and operators' commands to it.

Read in this order. The master's side: `telemetry` and `status` (what is published a few times per
second), `operator_commands`. The relay between a session and its watchers: `stream` (topics and
messages), `broadcast` (no I/O), `relay`, `monitoring` (starts it). Watchers: `viewer`, `terminal`
and `watch` with `screen`, `panel`, `sparkline`, `operator_keys`; `foxglove`; the web page is a room
of its own. At the end: `closing_table`.
"""
