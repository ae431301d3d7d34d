"""The macro step: the order of its stages, and a session's tables.

In reading order: `macro_step` (the stages in order), `numerics` (a session's tables and the two
compiled calls), `load_step` (loads or compiles these calls),
`build_plan` with `fill_controls`, `fill_stimuli` and `fill_faults`, `changes` and `apply_changes`
(what operators change while a session runs), `source_changes` (what drives inputs, as text),
`observer` (who is notified of a step).
"""
