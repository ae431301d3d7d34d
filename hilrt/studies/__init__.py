"""Many sessions with other settings: sweeps, on all processors or on a cluster.

In reading order: `axes` (what varies, and the cases of a design), `subject` (the session, or the
logs), `run_cases` (a worker's part: one case, its row), `workers` (Dask: who runs what, and what
becomes of a case whose worker dies), `sweep` (a sweep's folder, its progress and its end) with
`sweep_data` (rows to Parquet and back), `sweep_page` (with indices of sensitivity). `tune` finds
the best settings for an `objective`; `settings_advice` those to begin with, by runs of a session's
models (`advise_session`, `session_models`) and their errors (`model_trials`), and by the delays of
host and peers (`measured_delays`). `first_step` gives the first step of a session whose step
varies.

`what_if` repeats a log's decisions with other settings (`what_if_result`).

Only `workers` imports Dask, when a sweep begins.
"""
