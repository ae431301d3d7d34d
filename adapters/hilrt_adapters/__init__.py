"""Adapters: connections between the master and the kinds of subsystems.

One `Link` each: `inprocess` (a class in the master's process), `fmu` (an FMU there), `zeromq` (a
solver process), `gateway` (a bench on CAN), `replay` with `recorded_tracks` (a recorded log). The
core finds them by their entry points alone.
"""
