"""Live views of a running session, and operators' commands to it.

Read in this order. The master's side: `session_state`, `telemetry` and `status` (what is published
a few times per second), `open_prompts` (what test sequences ask), `operator_commands`, `arming`
(Enter on the terminal), `own_ports`, `output` (streams that hold nobody up). What readers must
know: `read_token`. The relay between a session and its watchers: `stream` (topics and messages),
`broadcast` (no I/O), `relay`. Watchers: `viewer` with `flag_spans`, `terminal` and `watch` with
`screen`, `panel`, `display_order`, `short_names`, `sparkline`, `operator_keys`; `foxglove` with
`foxglove_server` on a `limited_server`; the web page is a room of its own. At the end:
`closing_table`.
"""
