"""Test sequences: subsystems written as a sequence of steps.

Read in this order: `sequence` (base class and stepper), `bench` (interface for sequences),
`steps` and `prompts` (objects to await).
"""
