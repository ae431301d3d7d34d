"""Random sessions with known true errors, for `tools/calibration/calibrate_verdict.py`.

In reading order: `law` (the sampling law), `parts` (parts of a coupled system), `systems`, the
modules of the groups (`linear_systems`, `nonlinear_systems`, `machines`) and `groups`,
`scripted_links` (arrival times of samples), `sessions` (one session run by the master), `truth`,
`compare`, `runs` (many sessions, resumable), `figures`, `judge`, `fit`, `advised` and `report`.
"""
