"""Writing, reading and replaying session logs."""
