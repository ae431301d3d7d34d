"""The causes of flags: what each says, and how much of it lowers a session's verdict."""

from __future__ import annotations

from typing import Final, NamedTuple


class Cause(NamedTuple):
    """Why results are less reliable: in words, and how much of the time makes a verdict."""

    text: str
    degraded: float  #: share of the session's time from which the verdict is "degraded"
    unreliable: float  #: and from which it is "unreliable"


CAUSES: Final[dict[str, Cause]] = {
    "sample_late": Cause(
        "sample late, carried on by prediction, extrapolation or hold", 0.005, 0.1
    ),
    "rejoined": Cause("came back after it was lost, without its state", 0.0, 1.1),
    "sample_implausible": Cause("value is not a finite number", 0.0, 0.01),
    "connection_defect": Cause("input as sent differs from the output it stands for", 0.05, 0.5),
    "output_defect": Cause("output inside the step differs from its polynomial", 0.05, 0.5),
    "error_estimate": Cause(
        "estimated error of an input over its tolerance (an indicator only, where marked: the "
        "output behind it has feedthrough)",
        0.05,
        0.5,
    ),
    "power_residual": Cause("the interface creates or destroys power", 0.05, 0.5),
    "energy_drift": Cause(
        "energy made at the interface adds up, though little in any one step", 0.05, 0.5
    ),
    "tracking_error": Cause("the bench realises its demand late or imperfectly", 0.2, 0.8),
    "correction_capped": Cause("energy correction at its cap", 0.2, 1.1),
    "correction_shadow": Cause("energy correction computed, not applied", 0.2, 1.1),
    "model_untrusted": Cause("model correction inactive: its Jacobian is not trusted", 0.2, 1.1),
    "event_inside_step": Cause(
        "stepped across a discontinuity of a subsystem that gives it inputs", 0.02, 0.2
    ),
    "input_limited": Cause("input limited in value or rate", 0.05, 0.5),
    "step_minimum": Cause("step size at its minimum", 0.05, 0.5),
    "deadline_missed": Cause("inputs not on the wire in time", 0.02, 0.2),
    "clock_uncertain": Cause("a bench's clock is not known well enough", 0.2, 1.1),
    "alarm": Cause("a measured value outside its limits", 0.0, 1.1),
}
