"""The log of a session: what it holds, writing it beside a running session, reading it.

Read in this order. From the master: `messages`, `feed` with `recorder_feed`, `unwritten_events` and
`memory_feed` (what stands in a row is `hilrt.step_log`). From gateways: `frame_batch`,
`frame_feed`. The recorder: `recorder` (the loop), `recording` (one log), `gate` (recording around
triggers), `frame_intake`, `logged_frame`, `session_clock`, `clock_watch`, `log_progress` (what the
master hears), `capped_logs` (what the session's processes print). The file: `mcap_writer`, `cdr`,
`log_entry`, `record_file`, `chunk`, `find_log`, `reader` with `to_pandas`, `decimate`, `repair`.
"""
