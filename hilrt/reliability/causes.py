"""Why results are less reliable: the causes of flags, and when they make a verdict.

Consequences decide: what an input, an output or a bond was wrong by. Late samples, missed ticks,
capped corrections and the shortest step bring these about; they are named beside them, and decide
nothing. Nor do limits that the signals of the session itself reach: they are part of the system.
A cause that says what nobody could find out leaves a session `unverified`, never `degraded`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Cause(NamedTuple):
    """A cause in words, and which share of the steps under it makes a verdict."""

    text: str
    degraded: float  #: share above which the verdict is "degraded"; 0: if it ever was up
    unreliable: float  #: and above which it is "unreliable"; of one second alone: "degraded"
    explains: bool = False  #: no verdict; named beside one from the first share on
    evidence: str = ""  #: what would give the evidence that is lacking: "unverified" at most


#: More than all of a session.
NEVER: Final = 1.1
#: In the order of the table `Plan.causes`.
CAUSES: Final[dict[str, Cause]] = {
    "sample_late": Cause(
        "sample late, carried on by prediction, extrapolation or hold", 0.005, NEVER, True
    ),
    "subsystem_silent": Cause("not heard for 0.2 s or longer", 0.0, 0.2),
    "rejoined": Cause("came back after it was lost, without its state", 0.0, NEVER),
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
    "correction_capped": Cause("energy correction at its cap", 0.005, NEVER, True),
    "correction_shadow": Cause("energy correction computed, not applied", 0.2, NEVER),
    "model_untrusted": Cause("model correction inactive: its Jacobian is not trusted", 0.2, NEVER),
    "event_inside_step": Cause(
        "stepped across a discontinuity of a subsystem that gives it inputs", 0.005, 0.05
    ),
    "input_limited": Cause("input limited in value or rate", 0.005, NEVER, True),
    "demand_cut": Cause(
        "a stimulus, a sequence or a correction asked of an input what its limits cut off",
        0.05,
        0.5,
    ),
    "step_minimum": Cause("step size at its minimum", 0.005, NEVER, True),
    "deadline_missed": Cause("inputs not on the wire in time", 0.005, NEVER, True),
    "clock_uncertain": Cause("a bench's clock is not known well enough", 0.2, NEVER),
    "alarm": Cause("a measured value outside its limits", 0.0, NEVER),
    "correction_wrong": Cause(
        "what the correction takes for the subsystem's answer is not what was probed", 0.0, NEVER
    ),
    "correction_unverified": Cause(
        "nothing could verify the correction, and it moves much energy",
        0.05,
        NEVER,
        evidence="a solver that saves and restores its state would let a trial verify it",
    ),
    "out_of_range": Cause("a value outside the range that is declared for it", 0.0, 0.1),
    "correction_harmful": Cause(
        "the correction made more energy than none would have made", 0.0, NEVER
    ),
    "steps_final": Cause(
        "its results would be wrong if its steps were repeated: none is, and none was tried out",
        0.0,
        NEVER,
        evidence="a reference model would show how it answers",
    ),
    "inputs_ignored": Cause(
        "no output answered to its inputs when they were tried out", 0.0, NEVER
    ),
    "sensitivities_changed": Cause(
        "what passes the coupling's error on was another when it was tried out again", 0.05, NEVER
    ),
}

_ROWS = list(CAUSES)
#: Rows of `Plan.causes`.
SAMPLE_LATE: Final = _ROWS.index("sample_late")
SUBSYSTEM_SILENT: Final = _ROWS.index("subsystem_silent")
REJOINED: Final = _ROWS.index("rejoined")
SAMPLE_IMPLAUSIBLE: Final = _ROWS.index("sample_implausible")
CONNECTION_DEFECT: Final = _ROWS.index("connection_defect")
OUTPUT_DEFECT: Final = _ROWS.index("output_defect")
ERROR_ESTIMATE: Final = _ROWS.index("error_estimate")
POWER_RESIDUAL: Final = _ROWS.index("power_residual")
ENERGY_DRIFT: Final = _ROWS.index("energy_drift")
TRACKING_ERROR: Final = _ROWS.index("tracking_error")
CORRECTION_CAPPED: Final = _ROWS.index("correction_capped")
CORRECTION_SHADOW: Final = _ROWS.index("correction_shadow")
MODEL_UNTRUSTED: Final = _ROWS.index("model_untrusted")
EVENT_INSIDE_STEP: Final = _ROWS.index("event_inside_step")
INPUT_LIMITED: Final = _ROWS.index("input_limited")
DEMAND_CUT: Final = _ROWS.index("demand_cut")
STEP_MINIMUM: Final = _ROWS.index("step_minimum")
DEADLINE_MISSED: Final = _ROWS.index("deadline_missed")
CLOCK_UNCERTAIN: Final = _ROWS.index("clock_uncertain")
ALARM: Final = _ROWS.index("alarm")
CORRECTION_WRONG: Final = _ROWS.index("correction_wrong")
CORRECTION_UNVERIFIED: Final = _ROWS.index("correction_unverified")
OUT_OF_RANGE: Final = _ROWS.index("out_of_range")
CORRECTION_HARMFUL: Final = _ROWS.index("correction_harmful")
STEPS_FINAL: Final = _ROWS.index("steps_final")
INPUTS_IGNORED: Final = _ROWS.index("inputs_ignored")
SENSITIVITIES_CHANGED: Final = _ROWS.index("sensitivities_changed")

#: Those whose thresholds are relative to a running scale.
RELATIVE: Final = (
    CONNECTION_DEFECT,
    OUTPUT_DEFECT,
    POWER_RESIDUAL,
    ENERGY_DRIFT,
    TRACKING_ERROR,
    CORRECTION_UNVERIFIED,
)
