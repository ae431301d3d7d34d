"""Ten recordings of an engine whose faults are drawn at random, as tables of numbers."""

import numpy as np

STEP_NS = 10_000_000
ROWS = 400
NAMES = ("engine.speed", "engine.torque", "driver.pedal")
UNITS = ("rad/s", "N*m", "%")


def faulty_log(seed):
    """Times [ns], shape (n,), and values, shape (n, 3), NaN where a sample is missing."""
    rng = np.random.default_rng(seed)
    t = np.arange(ROWS) * STEP_NS
    pedal = np.repeat(rng.uniform(0.0, 100.0, ROWS // 50), 50)
    torque = np.zeros(ROWS)
    for k in range(1, ROWS):
        torque[k] = torque[k - 1] + 0.08 * (2.0 * pedal[k] - torque[k - 1])
    speed = 100.0 + np.cumsum(torque - 100.0) * 0.02 + rng.normal(0.0, 0.5, ROWS)
    values = np.round(np.column_stack([speed, torque + rng.normal(0.0, 2.0, ROWS), pedal]), 3)
    for _ in range(3):
        column, at = rng.integers(2), rng.integers(20, ROWS - 60)
        kind = rng.choice(["spike", "stuck", "offset", "lost"])
        span = slice(at, at + rng.integers(1, 40))
        if kind == "spike":
            values[at, column] += rng.choice([-150.0, 150.0])
        elif kind == "stuck":
            values[span, column] = values[at, column]
        elif kind == "offset":
            values[span, column] += 40.0
        else:
            values[span, column] = np.nan
    return t, values


def held(values):
    """Values with the last one in place of what is missing."""
    found = values.copy()
    for k in range(1, len(found)):
        lost = np.isnan(found[k])
        found[k, lost] = found[k - 1, lost]
    return found


def write_csv(path, t, values):
    """As a table of another tool."""
    head = ",".join(f"{name} [{unit}]" for name, unit in zip(NAMES, UNITS, strict=True))
    lines = [f"time [s],{head}"]
    for t_ns, row in zip(t.tolist(), values.tolist(), strict=True):
        cells = ["" if np.isnan(value) else repr(value) for value in row]
        lines.append(f"{t_ns / 1e9:.9f},{','.join(cells)}")
    path.write_text("\n".join(lines) + "\n")
