"""Time: session time, precise waiting, real-time priorities, the parts of a tick.

In reading order:

* session time: `grid` (the clock readings of a tick, the budget of its slack), `pace`, `overrun`,
  `early_reception` (samples before a tick);
* clocks: `monotonic` (readings, silence of a peer), `clock` (sleeping);
* durations of a tick's parts: `timeline`, `histogram` with `count_times`;
* the host: `host`, `realtime` (priorities, scheduler slices, wake-up latency), `parent` (end with
  the parent process), `doctor`.
"""
