"""Expectations: conditions on a session or a log over time, and their outcome.

Signal temporal logic with quantitative robustness, on samples. Nothing here is on a tick's critical
path: a session's rows are evaluated in the slack, in batches.

* `formula`: comparisons, and/or, always, eventually, until, and their text; `expectation`: read
  from a table ``[[expect]]`` or a file
* `robustness`: distance to the limit with its bounds, also over a moving window; `obligation`: a
  formula from one sample on; `monitor`: passed or failed
* `log_signals`: signals of a log, comparisons and their errors; `case`: from rows to an `outcome`;
  `judge`: all expectations of a session; `of_sequences`: results of sequences
"""
