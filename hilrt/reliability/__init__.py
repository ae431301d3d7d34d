"""Reliability of the results: alarms, flags, and the verdict.

In reading order:

* the checks and their causes: `causes`, `checks`, `alarms`;
* the stages: `guard` (before a sample acts), `measure` and `move_flags` (in the slack);
* as text: `flags`, `verdict`; as numbers: `summary_figures`;
* errors in the signals' units: `estimates`, with the constants of `calibrated`; remedies: `advice`,
  with the errors that `expected_error` predicts; `choose_settings` chooses step and order by
  predicted errors, here and before the first run.
"""
