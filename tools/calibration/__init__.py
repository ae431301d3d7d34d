"""Random sessions with their truth beside them, for `tools/calibration/calibrate_verdict.py`.

In reading order: `law` (the sampling law), `parts` (what is coupled), `systems`, the files of
the groups (`linear_systems`, `nonlinear_systems`, `machines`) and `groups`, `scripted_links` (when
samples arrive), `sessions` (one session by the master), `truth`, `compare`, `runs` (many,
resumable), `figures`, `judge`, `fit`, `advised` and `report`.
"""
