"""Benchmark problems, a demonstration vehicle and emulated benches, one file each."""
