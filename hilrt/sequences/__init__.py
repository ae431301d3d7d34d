"""Test sequences: subsystems that are written as what happens one after another.

Read in this order: `sequence` (what a user writes, and its stepper), `bench` (what it calls),
`awaited_step` with `timed_steps` and `prompts` (what it awaits).
"""
