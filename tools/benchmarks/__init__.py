"""Benchmarks of steps, exchanges, sessions and start-up; see docs/benchmarks.md."""
