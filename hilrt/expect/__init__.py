"""Expectations: conditions on a session or a log over time, and their outcome.

Signal temporal logic with quantitative robustness, on samples. Nothing of it is on a tick's
critical path: a session's rows are judged in the slack, in batches.

* `formula`: comparisons, and/or, always, eventually, until, and their text; `expectation`: from a
  table ``[[expect]]``, or from a file
* `robustness`: distance to the limit with its bounds, also over a moving window; `obligation`: at
  every sample; `monitor`: passed or failed
* `log_signals`: signals of a log, comparisons and their errors; `case`: from rows to an `outcome`;
  `judge`: all of a session; `of_sequences`: verdicts of sequences; `judge_log`: recorded logs
"""
