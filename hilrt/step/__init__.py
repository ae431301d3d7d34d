"""The macro step: the order of the stages, and a session's tables around it.

In reading order: `macro_step` (the order, and its only place), `numerics` (a session's tables and
the two compiled calls), `build_plan` with `fill_controls` and `fill_ranges`, `start_state`,
`changes` and `apply_changes` (what operators change while a session runs).
"""
