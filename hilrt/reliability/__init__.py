"""How far results can be trusted: alarms, flags, measures and the verdict."""
