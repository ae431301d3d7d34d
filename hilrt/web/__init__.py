"""The web page of a running session: an instrument panel, commands, and metrics.

It is a process of its own that reads the telemetry stream like any other subscriber. It needs the
extra ``hilrt[web]``. Read in this order: `arguments`, `server` with `hosts` and `own_names`
(which requests are served), `guarded_page` and `security_headers` (what a browser may do with the
answers), `plain_server` with `waiting_page` and `ended_page` (before and after),
`shared_session` and `signal_history` (what all clients share), `page` (one client: models and
updates, sent by `changed_models`), `panels` (lamp, state, bonds, peers as HTML), `event_rows`,
`graph`, `plots`, `operator_controls` with `typed`, `metrics`.
"""
