"""Replay of a session's decisions from its log.

Read in this order: `recorded_steps` (the log as a sequence of step inputs), `rebuild` (plan and
state from the log), `walk` (macro steps with the log's rows as input), `decisions` (which signals
are decisions, and their comparison), `replay_log` (exact replay; results as text and JSON).
"""
