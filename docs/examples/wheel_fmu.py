"""The wheel of the quarter car as an FMU, by pythonfmu."""

from pythonfmu import Fmi2Causality, Fmi2Slave, Real

STEPS = 10  # own steps per macro step


class Wheel(Fmi2Slave):
    """Unsprung mass on a tyre; owns the suspension."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.road, self.body_x, self.body_v = 0.0, 0.0, 0.0
        self.x, self.v = 0.0, 0.0
        for name in ("road", "body_x", "body_v"):
            self.register_variable(Real(name, causality=Fmi2Causality.input))
        self.register_variable(  # computed when it is read: direct feedthrough
            Real("force", causality=Fmi2Causality.output, getter=self.suspension)
        )
        self.register_variable(Real("x", causality=Fmi2Causality.output))

    def suspension(self):
        return 20e3 * (self.x - self.body_x) + 1.5e3 * (self.v - self.body_v)

    def do_step(self, current_time, step_size):
        dt = step_size / STEPS
        for _ in range(STEPS):
            self.v += dt * (180e3 * (self.road - self.x) - self.suspension()) / 40.0
            self.x += dt * self.v
        return True
