"""What a log or a session file says about a session: reports, comparisons, stability.

Read in this order. From a log: `curves`, `slowest_rows` and `log_statistics` (its rows read once),
`rows_summary` (the summary's figures from them), `report_accumulator` (the same while it is
written), `recorded_settings`, `step_advice`, `can_names` and `can_traffic` (its CAN frames),
`log_analysis` (all of it in one object), `figure_style`, `figures`, `figure_steps`,
`figure_timing`, `figure_can`, `figure_failures`, `measured_points` and `figure_map` (what tests
have measured at coordinates), `report_figures`, `report_tables`, `report_can` and `report_page`
(the page's parts), `report`, `report_png`. From two logs: `signal_differences`,
`log_comparison`, `figure_compare`, `comparison_page`. From a session file: `subsystem_models`
(subsystems as linear maps), `corrector_matrices` and `propagation` (the macro step on matrices),
`stability`, `stability_study` with its `stability_table` and `stability_page`, `accuracy`.
"""
