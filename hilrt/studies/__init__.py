"""Studies of many sessions with different settings, on all processors or on a cluster.

In reading order: `axes` (keys that vary, and the cases of a design), `subject` (the session, or
the logs), `run_cases` (a worker's part: a case and its row), `workers` (Dask: distribution of the
cases, and cases of workers that die), `sweep` (a sweep's folder, progress and end) with
`sweep_data` (rows to Parquet and back), `sweep_page` (with sensitivity indices). `tune` finds the
best settings for an `objective`; `settings_advice` recommends initial ones, from runs of a
session's models (`advise_session`, `session_models`), their errors (`model_trials`), and the delays
of host and peers (`measured_delays`). `first_step` determines the first step of a session with a
variable step.

`what_if` repeats a log's decisions with different settings (`what_if_result`).

Only `workers` imports Dask, when a sweep begins.
"""
