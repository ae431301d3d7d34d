"""Causes of flags: why results are less reliable, and the share above which the verdict changes.

Only consequences affect the verdict: the error of an input, an output or a bond. Late samples,
missed ticks, capped corrections and the minimum step are reasons for these; they are named but do
not affect the verdict. Neither do limits that the session's own signals reach, which are part of
the system. A cause of missing evidence makes a session `unverified`, never `degraded`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: Lower bound of a signal's spread, as a share of its RMS.
LEAST_SPREAD: Final = 0.05


class Cause(NamedTuple):
    """A cause as a sentence about ``{}``, with the shares of affected steps for a verdict."""

    text: str
    degraded: float  #: share above which the verdict is "degraded"; 0: at any occurrence
    unreliable: float  #: above which it is "unreliable"; if only in one second: "degraded"
    explains: bool = False  #: does not affect the verdict; named above the first share
    evidence: str = ""  #: remedy for missing evidence: "unverified" at most
    places: str = ""  #: text for {} if the places are unknown


#: Share that is never reached.
NEVER: Final = 1.1
_BENCH, _BOND, _INPUT, _OUTPUT = "a bench", "a bond", "an input", "an output"
_SUBSYSTEM = "a subsystem"
#: In the order of the table `Plan.causes`.
CAUSES: Final[dict[str, Cause]] = {
    "sample_late": Cause(
        "samples of {} were late, and were predicted, extrapolated or held",
        0.005,
        NEVER,
        explains=True,
        places=_SUBSYSTEM,
    ),
    "subsystem_silent": Cause(
        "no sample of {} was received for 0.2 s or longer", 0.0, 0.2, places=_SUBSYSTEM
    ),
    "rejoined": Cause("{} returned after a loss, without its state", 0.0, NEVER, places=_SUBSYSTEM),
    "sample_implausible": Cause("values of {} were not finite numbers", 0.0, 0.01, places=_OUTPUT),
    "connection_defect": Cause(
        "{} as sent differed from the connected outputs", 0.05, 0.5, places=_INPUT
    ),
    "output_defect": Cause(
        "inside the step, {} differed from the polynomial of the samples", 0.05, 0.5, places=_OUTPUT
    ),
    "error_estimate": Cause(
        "the estimated error of {} exceeded its tolerance (where marked, it is only an indicator, "
        "because the connected output has feedthrough)",
        0.05,
        0.5,
        places=_INPUT,
    ),
    "power_residual": Cause(
        "the interface of {} created or destroyed power", 0.05, 0.5, places=_BOND
    ),
    "energy_drift": Cause(
        "energy created at the interface of {} added up, though it was little in any one step",
        0.05,
        0.5,
        places=_BOND,
    ),
    "tracking_error": Cause(
        "the bench realised the set-points of {} late or inaccurately", 0.2, 0.8, places=_BOND
    ),
    "correction_capped": Cause(
        "the energy correction of {} was at its cap", 0.005, NEVER, explains=True, places=_BOND
    ),
    "correction_shadow": Cause(
        "the energy correction of {} was computed but not applied", 0.2, NEVER, places=_BOND
    ),
    "model_untrusted": Cause(
        "the model-based correction of {} did not act, because its Jacobian is not trusted",
        0.2,
        NEVER,
        places=_OUTPUT,
    ),
    "model_unexcited": Cause(
        "the model-based correction of {} did not act, because hardly anything but noise and the "
        "loop itself moves its subsystem's inputs; dither, a stimulus or a test sequence would",
        0.2,
        NEVER,
        places=_OUTPUT,
    ),
    "event_inside_step": Cause(
        "{} stepped across a discontinuity of a subsystem that supplies its inputs",
        0.005,
        0.05,
        places=_SUBSYSTEM,
    ),
    "input_limited": Cause(
        "{} was limited in value or rate", 0.005, NEVER, explains=True, places=_INPUT
    ),
    "demand_cut": Cause(
        "a stimulus, a sequence, an operator or a correction demanded more of {} than its limits "
        "allow",
        0.05,
        0.5,
        places=_INPUT,
    ),
    "step_minimum": Cause("the step was at its minimum", 0.005, NEVER, explains=True),
    "deadline_missed": Cause("the inputs were not sent in time", 0.005, NEVER, explains=True),
    "clock_uncertain": Cause(
        "the clock of {} was not known accurately enough", 0.2, NEVER, places=_BENCH
    ),
    "alarm": Cause(
        "a measured value was outside its limits ({})", 0.0, NEVER, places="those of an alarm"
    ),
    "correction_wrong": Cause(
        "the correction of {} assumes another response of a subsystem than was probed",
        0.0,
        NEVER,
        places=_BOND,
    ),
    "correction_unverified": Cause(
        "the correction of {} could not be verified, and moved much energy",
        0.05,
        NEVER,
        evidence="a solver that saves and restores its state would allow a trial to verify it",
        places=_BOND,
    ),
    "out_of_range": Cause(
        "values of {} were outside their declared range", 0.0, 0.1, places=_OUTPUT
    ),
    "correction_harmful": Cause(
        "more energy was created with the correction of {} than would have been without it",
        0.0,
        NEVER,
        places=_BOND,
    ),
    "steps_final": Cause(
        "results of {} would be wrong if its steps were repeated, so it was not probed",
        0.0,
        NEVER,
        evidence="a reference model would show how it responds",
        places=_SUBSYSTEM,
    ),
    "inputs_ignored": Cause(
        "no output of {} responded to its inputs in a trial",
        0.0,
        NEVER,
        places=_SUBSYSTEM,
    ),
    "sensitivities_changed": Cause(
        "a new trial found that the subsystems now respond differently to the coupling's error",
        0.05,
        NEVER,
    ),
    "error_feeds_spread": Cause(
        "half of the variation of {} or more may itself be error of the coupling, so that the "
        "relative error looks too small",
        0.005,
        NEVER,
        explains=True,
        places=_OUTPUT,
    ),
    "inside_unknown": Cause(
        "nothing shows the outputs of {} between communication points, where they may switch",
        0.0,
        NEVER,
        evidence="y_mid or y_mean of its samples, save_state and restore_state, half_steps of an "
        'FMU, or repeat = "half" would show them',
        places=_SUBSYSTEM,
    ),
    "switches_inside": Cause(
        "outputs of {} were not smooth inside a step",
        0.05,
        0.5,
        places=_SUBSYSTEM,
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
MODEL_UNEXCITED: Final = _ROWS.index("model_unexcited")
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
ERROR_FEEDS_SPREAD: Final = _ROWS.index("error_feeds_spread")
INSIDE_UNKNOWN: Final = _ROWS.index("inside_unknown")
SWITCHES_INSIDE: Final = _ROWS.index("switches_inside")

#: Causes whose thresholds are relative to a running scale.
RELATIVE: Final = (
    CONNECTION_DEFECT,
    OUTPUT_DEFECT,
    POWER_RESIDUAL,
    ENERGY_DRIFT,
    TRACKING_ERROR,
    CORRECTION_UNVERIFIED,
)
