"""Adapters: what stands between the master and a kind of subsystem."""
