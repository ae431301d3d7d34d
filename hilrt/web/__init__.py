"""The web page of a running session: an instrument panel, commands, and metrics.

It is a process of its own that reads the telemetry stream like any other subscriber. It needs the
extra ``hilrt[web]``. Read in this order: `server` with `hosts` (which requests are served),
`shared_session` and `signal_history` (what all clients share), `page` (one client: models and
updates, sent by `changed_models`), `panels` (lamp, state, bonds, peers as HTML), `event_rows`,
`graph`, `plots`, `operator_controls` with `typed`, `metrics`.
"""
