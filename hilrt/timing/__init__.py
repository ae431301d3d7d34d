"""When: clocks, punctual waiting, real-time priorities, the timeline of the ticks, the host."""
