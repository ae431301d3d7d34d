"""A session's life: from the session file to a closed log.

Read in this order. `run` (options, folder, signals) and `result`. The life of a session with its
processes: `session`, `parts`, `running` (from connected subsystems to the last tick; it imports the
numerics), `ending`, `closing`. The parts: `assembly` (numerics from links), `references` (models
that stand for subsystems in the error estimate), `benches` and `bench_procedure`, `stimulus_files`,
`event_log`, `session_log` with `recording_room` and `recording_watch`, `observers` (of the loop:
recording, flags, status, expectations), `operation` (commands), `timing_setup`, `summary` with
`losses`, `run_summary` and `reserved_file`.
Processes: `processes`, `spawn` with `launch`, `monitoring`, `recorder_process`. Beside the program
that started it: `live_session` with `session_readings`, in a `loop_thread`. What takes long to
load: `left_thread`. Without processes: `simulate`. Of test sequences from outside:
`sequence_sessions`, `pytest_plugin`.
"""
