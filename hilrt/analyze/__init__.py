"""Reports, comparisons and stability, from a log or a session file.

In reading order:

* from a log: `log_statistics` (of its rows, read once), `rows_summary` (the summary's figures from
  these), `report_accumulator` (the same during recording), `step_advice`, `can_names` and
  `can_traffic` (its CAN frames), `log_analysis` (all data in one object);
* figures: `figure_style`, `curves`, `figures`, `figure_timing` (times and step sizes,
  CAN buses), `measured_points` (values measured by tests, over their coordinates);
* the report: `report_tables`, `report_page` (parts of the page, pictures), `report`;
* expectations of a log: `judge_log`;
* from several runs: `runs` (the table of runs), `log_comparison`, `comparison_page`;
* from a session file: `subsystem_models` (subsystems as linear maps), `stability` and
  `propagation` (the macro step on matrices), `stability_study` with its `stability_page`.
"""
