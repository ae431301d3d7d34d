"""A user's solver in a process: bringing it up, serving the master, relaying its log."""
