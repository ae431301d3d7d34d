"""Reports and analyses of sessions."""
