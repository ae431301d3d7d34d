"""Benchmarks: what a step, an exchange, a session or a start costs; see docs/benchmarks.md."""
