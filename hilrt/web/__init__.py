"""Web page of a running session: an instrument panel, commands, and metrics.

It runs in a separate process that reads the telemetry stream like any other subscriber, and needs
the extra ``hilrt[web]``. Read in this order: `server` (and the metrics) with `page_access` (access,
and the policy for browsers), `plain_server` (the page before and after a session, and the
arguments), `shared_session` (shared by all clients), `page` (one client: models and updates),
`panels` (lamp, state, bonds, peers, events as HTML), `graph`, `plots`, `operator_controls` (and the
list of alarms).
"""
