"""Expectations: what must hold in a session or a log, over time, and what that comes to.

Signal temporal logic with quantitative robustness, on samples. Nothing of it is on a tick's
critical path: a session's rows are judged in the slack, in batches.

* `formula`: comparisons, and/or, always, eventually, until; `read_formula`: from text;
  `expectation`: from a table ``[[expect]]``; `spec`: from a file
* `robustness`: distance to the limit with its bounds; `sliding`: over a moving window;
  `sample_stream`: at every sample; `accumulate`, `obligation`: from one point on;
  `monitor`: passed or failed
* `log_signals`: what a log has; `margins`: comparisons and their errors; `case`: from rows to an
  `outcome`; `judge`: all of a session; `of_sequences`: what those tell; `judge_log`,
  `log_files`: of recorded logs; `junit`
"""
