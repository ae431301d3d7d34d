"""Replaying a session's decisions from its log, as they were and as they might have been."""
