"""Live views of a running session, and operators' commands to it.

Read in this order. The master's side: `session_state` (and arming by hand), `telemetry` and
`status` (what is published a few times per second), `operator_commands`, `output` (streams that
delay nobody). The token of readers, and the ports for reading: `read_token`. The relay between a
session and its watchers: `stream` (topics and messages), `broadcast` (no I/O), `relay`. Watchers:
`viewer`, `terminal`, `watch` with `screen`, `panel`, `operator_keys`; `foxglove` with
`foxglove_server` on a `limited_server`; the web page is a room of its own. At the end:
`closing_table`.
"""
