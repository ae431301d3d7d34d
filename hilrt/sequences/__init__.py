"""Test sequences: subsystems that are written as what happens one after another.

Read in this order: `sequence` (what a user writes), `bench` (what it calls), `awaited_step` with
`timed_steps`, `together` and `prompts` (what it awaits), `stepper` (drives the coroutine, step by
step), `where` (its lines, for people).
"""
