"""Logs as files: show, cut and merge them, exchange them with other tools, play them back.

In reading order:

* logs of hilrt: `log_file`, `show`, `cut`;
* files of any format: `source` (common to all readers), `columns`, `open_source` (chooses the
  reader), `source_mcap`, `source_csv`, `frame_text` (candump, ASC, TRC); in a child process
  (`foreign_source`, `foreign_process`) `source_can`, `source_mf4` and `source_parquet`;
* frames to signals: `decode_frames`, `message_topics`;
* conversion: `import_file`, `export_file`, `export_csv` (and Parquet), `export_mf4`, `export_can`;
  playing frames on a bus: `playback`; columns for stimuli: `stimulus_columns`.
"""
