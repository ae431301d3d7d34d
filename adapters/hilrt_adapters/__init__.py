"""Adapters: connections of the master to the kinds of subsystems.

One `Link` each: `inprocess` (a class in the master's process), `fmu` (an FMU in the master's
process), `zeromq` (a solver process), `gateway` (a bench on CAN), `replay` with `recorded_tracks`
(a recorded log). The core finds them only by their entry points.
"""
