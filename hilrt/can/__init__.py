"""Tools around a CAN bus for people: watch, measure, send, start a session file."""
