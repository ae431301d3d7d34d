"""The web page of a running session: an instrument panel, commands, and metrics.

It is a process of its own that reads the telemetry stream like any other subscriber. It needs the
extra ``hilrt[web]``. Read in this order: `server` (and the metrics) with `page_access`
(which requests are served, what a browser may do with the answers), `plain_server` (the page before
and after, and the arguments), `shared_session` (what all clients share), `page` (one client: models
and updates), `panels` (lamp, state, bonds, peers, events as HTML), `graph`, `plots`,
`operator_controls` (and the list of alarms).
"""
