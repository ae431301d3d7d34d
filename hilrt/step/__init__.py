"""The macro step: its plan, its state, and the order of the stages."""
