"""The web page of a running session: an instrument panel, commands, and metrics.

It is a process of its own that reads the telemetry stream like any other subscriber. It needs the
extra ``hilrt[web]``.
"""
