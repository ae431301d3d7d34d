"""Live views of a running session."""
