"""A session's life: assembly, processes, start and stop, event log, operation, summary."""
