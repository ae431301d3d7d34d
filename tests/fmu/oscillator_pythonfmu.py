"""Source of FMUs of the two-mass oscillator: what pythonfmu packs, and by its names pythonfmu3."""

import numpy as np
from pythonfmu import Fmi2Causality, Fmi2Slave, Fmi2Variability, Real

from hilrt.models import two_mass
from hilrt.solver import InputPolynomial


class Oscillator(Fmi2Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.modelName = type(self).__name__
        self.model = getattr(two_mass, type(self).__name__)()
        self.u = np.zeros(len(self.model.inputs))
        for i, port in enumerate(self.model.inputs):
            self._real(port.name, Fmi2Causality.input, self.u, i)
        for i, port in enumerate(self.model.outputs):
            variable = Real(port.name, causality=Fmi2Causality.output)
            variable.getter = lambda i=i: float(self.model.initialize(0.0, self.u).y[i])
            self.register_variable(variable)
        for name in ("m", "k", "x", "v", "micro_step"):
            self._parameter(name)

    def _real(self, name, causality, values, i):
        variable = Real(name, causality=causality)
        variable.getter = lambda: float(values[i])
        variable.setter = lambda value: values.__setitem__(i, value)
        self.register_variable(variable)

    def _parameter(self, name):
        variable = Real(
            f"model.{name}", causality=Fmi2Causality.parameter, variability=Fmi2Variability.tunable
        )
        self.register_variable(variable)

    def do_step(self, current_time, step_size):
        u = InputPolynomial(current_time, self.u[None, :].copy())
        self.model.advance(current_time, step_size, u)
        return True
