"""FMUs of FMI 2.0 and 3.0 as solvers; FMPy loads them (extra ``hilrt[fmu]``)."""
