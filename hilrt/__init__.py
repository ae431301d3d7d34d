"""Soft real-time hardware-in-the-loop co-simulation for test benches."""

from hilrt.solver import InputPolynomial, Port, Sample, Solver

__all__ = ["InputPolynomial", "Port", "Sample", "Solver"]
__version__ = "0.1.0"
