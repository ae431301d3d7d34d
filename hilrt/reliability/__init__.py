"""How far results can be trusted: alarms, flags, and the verdict.

In reading order:

* what is watched, and why: `causes`, `checks`, `alarms`;
* the stages: `guard` and `judge_ranges` (before a sample acts), `measure`, `move_flags` and
  `count_affected` (in the slack);
* as text: `flags`, `ranges`, `verdict`, `divergence`, `impairment`; as numbers: `summary_figures`;
* errors in the signals' units: `estimates`, with the constants of `calibrated`; what would help:
  `advice`.
"""
