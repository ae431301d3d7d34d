"""How far results can be trusted: alarms, flags, and the verdict.

In reading order:

* what is watched, and why: `causes`, `checks`, `alarms`;
* the stages: `guard` (before a sample acts), `measure` and `move_flags` (in the slack);
* in words: `flags`, `verdict`, `divergence`, `degradation`.
"""
