"""Live views of a running session, and operators' commands to it.

Read in this order. The master's side: `session_state` (and manual arming), `telemetry` and
`status` (published a few times per second), `operator_commands`, `output` (standard streams that
never delay a session). The readers' token and ports: `read_token`. The relay between a session and
its watchers: `stream` (topics and messages), `broadcast` (no I/O), `relay`. Watchers: `viewer`,
`terminal`, `watch` with `screen`, `panel`, `operator_keys`; `foxglove` with `foxglove_server` on
`limited_server`; the web page is in `hilrt.web`. At the end of a session: `closing_table`.
"""
