"""A bench's gateway and guardian, its set-points, its emulator, and how benches start and stop."""
