"""Logs as files: look into them, cut and join them, exchange them with other tools, play them.

Read in this order. Our own logs: `log_file`, `contents`, `show`, `output`, `cut`, `log_writer`.
Files of any format: `source` (what all readers have in common), `columns`, the readers
`source_mcap`, `source_foreign_mcap`, `source_can` with `frame_text`, `candump`, `asc` and `trc`,
`source_csv`; in a child process (`foreign_source`, `foreign_messages`, `foreign_process`)
`source_mf4` with `frames_mf4`, `source_parquet` and `source_library`. `decode_frames` with
`bus_databases`, `message_topics` and `groups_in_log` (frames to signals), `open_source` (which
reader). To and from our format: `import_file`, `export_file` with `exported`, `export_csv`,
`export_mf4`, `export_parquet`, `export_can` with `bus_numbers`. On a bus: `playback`. For stimuli:
`stimulus_columns`.
"""
