"""When: how session time passes, punctual waiting, real-time priorities, where a tick's time goes.

In reading order:

* session time: `grid`, `pace`, `overrun`, `early_reception` (samples before a tick);
* clocks: `monotonic`; to sleep on: `clock`, `timerfd`; silence of a peer: `last_heard`;
* what a tick took: `tick_marks`, `timeline`, `progress`, `slack`, `histogram` with `count_times`;
* the host: `host`, `realtime`, `scheduler_slice`, `cpu_latency`, `processor_time`, `descriptors`,
  `host_delays`, `doctor`.
"""
