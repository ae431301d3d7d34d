"""The coupling methods: pure functions and small state objects on flat arrays."""
