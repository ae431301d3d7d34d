"""Test sequences: subsystems written as a sequence of steps.

Read in this order: `sequence` (what a user writes, and its stepper), `bench` (what it calls),
`awaited_step` with `timed_steps` and `prompts` (what it awaits).
"""
