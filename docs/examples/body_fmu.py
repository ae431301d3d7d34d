"""The body of the quarter car as an FMU, by pythonfmu."""

from pythonfmu import Fmi2Causality, Fmi2Slave, Fmi2Variability, Real

STEPS = 10  # own steps per macro step


class Body(Fmi2Slave):
    """Sprung mass: force in, motion out."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.mass, self.force, self.x, self.v = 400.0, 0.0, 0.0, 0.0
        tunable = {"causality": Fmi2Causality.parameter, "variability": Fmi2Variability.tunable}
        self.register_variable(Real("mass", **tunable))
        self.register_variable(Real("force", causality=Fmi2Causality.input))
        self.register_variable(Real("x", causality=Fmi2Causality.output))
        self.register_variable(Real("v", causality=Fmi2Causality.output))

    def do_step(self, current_time, step_size):
        dt = step_size / STEPS
        for _ in range(STEPS):
            self.v += dt * self.force / self.mass
            self.x += dt * self.v
        return True
