"""The stages of a session, from the session file to a closed log.

Every session goes through the same stages: `read`, `describe` and `connect` (`opening`),
`initialize` (`initialization`), `assemble` (`assembly`, which imports the numerics), `prepare`,
`run` and `summarise` (`ending`, with `summary`). `running` executes the last ones with benches and
recording, `simulate` without processes, and `repeat` at three steps. Around the stages: `run`
(options, folder, signals) and `result`; a session with processes: `session`, `opened` (its parts),
`ending`. The parts: `benches`, `event_log`, `session_log` with `recording_watch`,
`observers` (of the loop: recording, flags, status, expectations), `operation` (commands),
`run_summary` with `summary_layout`, and `reserved_file`.

Processes: `processes`, `child`, `spawn` with `launch`, `placer` (on a cluster), `monitoring`.
Sessions inside a running program: `live_session` with `session_readings`, in a
`loop_thread`. Inserted test sequences: `run`.
"""
