"""Replaying a session's decisions from its log, as they were and with other settings.

Read in this order: `recorded_steps` (the log as a sequence of step inputs), `rebuild` (plan and
state from the log), `walk` (the macro step driven by the log's rows), `decisions` (which signals
are decisions, and their comparison), `replay_log` (bit for bit; results as text and JSON),
`what_if` (other settings).
"""
