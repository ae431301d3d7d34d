"""What `hilrt check` says about a session file before anything starts."""
