"""Interface of the solver to one instance of an FMU, for all FMI versions."""

from __future__ import annotations

import abc
import contextlib
import ctypes
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from fmpy.fmi1 import FMICallException

from hilrt.errors import SolverError
from hilrt.files.archive import unpack
from hilrt.fmu.description import Fmu
from hilrt.fmu.values import Values
from hilrt.fmu.variables import flows
from hilrt.isolation.temporary_folder import TemporaryFolder
from hilrt.solver import Floats

log = logging.getLogger("hilrt.fmu")

OK, WARNING, DISCARD, ERROR, FATAL = range(5)
_STATUS = ("ok", "warning", "discard", "error", "fatal", "pending")
_LEVELS = (logging.INFO, logging.WARNING, logging.WARNING, logging.ERROR, logging.CRITICAL)

#: Maximum number of different warnings of an FMU in the log, so that an FMU that warns at every
#: step does not fill it. Equal warnings are logged once.
MESSAGES = 100

#: Maximum parts into which an FMU may divide a step, by discarding it or returning early.
MAX_PARTS = 1024

#: Inputs at an FMU time [s], shape (n_inputs,).
Inputs = Callable[[float], Floats]


class FmuError(SolverError):
    """The FMU refused a call."""

    page = "docs/fmu.md"


class Experiment(NamedTuple):
    """Arguments of an FMU's initialization: tolerance, start and stop time [s]."""

    tolerance: float | None
    start: float
    stop: float | None


class SavedState:
    """A state stored by the FMU and freed with this object, with related data of the solver."""

    def __init__(self, instance: Instance, handle: Any) -> None:
        self.instance, self.handle = instance, handle
        self.beside: Any = None  #: further data of the instance
        self.of_solver: Any = None

    def __del__(self) -> None:
        self.instance.free_state(self.handle)


class Instance(abc.ABC):
    """A loaded FMU; subclasses make the calls of one FMI version.

    Life cycle: creation (binary loaded, instantiated) → `set_start` → `enter_initialization` →
    `write`, `read` as often as needed → `exit_initialization` → `step`, `read` … → `close`.

    Parameters
    ----------
    fmu : Fmu
    inputs, outputs : sequence of (variable, int)
        The ports' variables with their sizes.
    debug : bool
        Request all log messages of the FMU.
    """

    #: FMPy's class.
    Slave: ClassVar[Any]
    fmi: Any  #: FMPy's object
    #: Number of saved states. Without any, steps are made with the promise not to go back before
    #: them (`noSetFMUStatePriorToCurrentPoint`), which some FMUs need to continue.
    states_kept: int = 0
    #: FMI 3: whether inputs are set, and outputs read, within a step; values read, by time [s].
    sets_inside: bool = False
    reads_inside: bool = False
    inside: Sequence[tuple[float, Floats]] = ()
    set_at: float = 0.0  #: time of the last setting of inputs in a step, FMU time, s
    #: Time at which the FMU ended its simulation, FMU time, s; it can only be read after that.
    ended: float | None = None

    def __init__(
        self,
        fmu: Fmu,
        inputs: Sequence[tuple[Any, int]],
        outputs: Sequence[tuple[Any, int]],
        debug: bool,
    ) -> None:
        self.fmu = fmu
        self.warnings = 0
        self._warned: set[str] = set()
        self._failed = self._dead = self._closed = False
        self._initialized = False
        self._last_message = ""
        fmu.need_binary()
        self._folder = TemporaryFolder("fmu")
        try:
            unpack(fmu.path, self._folder.path)
            with contextlib.chdir(os.getcwd()):  # FMPy would stay in the FMU's folder if this fails
                self.fmi = self.Slave(
                    guid=fmu.model.guid,
                    modelIdentifier=fmu.interface.modelIdentifier,
                    unzipDirectory=str(self._folder.path),
                    instanceName=fmu.model.modelName,
                )
            self._instantiate(debug)
        except BaseException as error:
            self._folder.remove()
            if isinstance(error, SolverError) or not isinstance(error, Exception):
                raise
            raise FmuError(
                f"{fmu.path.name} cannot be instantiated: {error}{self._log_hint()}"
                + "".join(f"; it {need}" for need in fmu.needs)
                + "".join(
                    f"; its model description violates the standard: {n}" for n in fmu.notes[:1]
                )
            ) from error
        # ctypes passes this form of pointer fastest.
        self.c = ctypes.c_void_p(self.fmi.component)
        lib = self.fmi.dll
        self._ins = Values(lib, fmu.major, inputs, self.check, self.c)
        self._outs = Values(lib, fmu.major, outputs, self.check, self.c)
        #: Set the inputs, shape (n_inputs,); read the outputs, shape (n_outputs,).
        self.write: Callable[[Floats], None] = self._ins.write
        self.read = self._outs.read
        self.real_inputs = _places(inputs)
        self.real_outputs = _places(outputs)

    @property
    def is_dead(self) -> bool:
        """Whether no further call is allowed."""
        return self._dead

    # -- calls that differ by version --------------------------------------------------------------

    @abc.abstractmethod
    def _instantiate(self, debug: bool) -> None: ...

    @abc.abstractmethod
    def set_start(self, values: dict[str, Any]) -> None:
        """Set parameters and start values, before the initialization."""

    @abc.abstractmethod
    def enter_initialization(self, experiment: Experiment) -> None:
        """Begin initialization mode."""

    @abc.abstractmethod
    def exit_initialization(self) -> None:
        """End initialization mode; the FMU can be stepped."""

    @abc.abstractmethod
    def _rates(self, references: Sequence[int], order: int, size: int) -> Any:
        """Derivatives of one order of outputs with `size` elements in all, shape (size,)."""

    @abc.abstractmethod
    def step(self, t: float, h: float, u: Inputs) -> list[float]:
        """Step from `t` to ``t + h`` [s] with the inputs set; return times of events, s.

        If the FMU stops within the step, inputs are set again there, at `set_at`. If it ends its
        simulation, it remains at that time, `ended`.
        """

    # -- common to both ----------------------------------------------------------------------------

    def derivatives(self, order: int) -> Floats:
        """Output derivatives 1 … order, shape (order, n_outputs); 0 if not continuous."""
        dy = np.zeros((order, self._outs.size))
        if self.real_outputs:
            references = [reference for _, reference, _ in self.real_outputs]
            places = [p for first, _, size in self.real_outputs for p in range(first, first + size)]
            for n in range(order):
                dy[n, places] = self.guard(self._rates, references, n + 1, len(places))
        return dy

    def save(self) -> SavedState:
        """A copy of the FMU's state, stored by the FMU."""
        saved = SavedState(self, self.guard(self.fmi.getFMUState))
        self.states_kept += 1
        return saved

    def restore(self, saved: SavedState) -> None:
        """Restore a saved state."""
        self.guard(self.fmi.setFMUState, saved.handle)
        self.ended = None

    def free_state(self, handle: Any) -> None:
        """Free a state; no effect once the instance is gone."""
        self.states_kept -= 1
        if not (self._dead or self._closed):
            self.guard(self.fmi.freeFMUState, handle)

    def directional(
        self, unknowns: Sequence[Any], knowns: Sequence[Any], seed: Floats, size: int
    ) -> Floats:
        """Directional derivative of `unknowns`, shape (size,), along `seed` of the `knowns`."""
        references = ([v.valueReference for v in some] for some in (unknowns, knowns))
        arguments = [*references, seed.tolist()]
        if self.fmu.major == 3:
            arguments.append(size)
        return np.array(self.guard(self.fmi.getDirectionalDerivative, *arguments))

    def check(self, function: str, status: int) -> None:
        """Raise `FmuError` for discard, error and fatal; count and log warnings."""
        if status == OK:
            return
        hint, self._last_message = self._log_hint(), ""
        if status == WARNING:
            self.warnings += 1
            if not hint:  # otherwise the FMU's own message is logged
                level = logging.WARNING if self.warnings == 1 else logging.DEBUG
                log.log(level, "%s: %s returned a warning", self.fmu.path.name, function)
            return
        if status >= ERROR:
            self._failed = True  # it may be freed, but no longer terminated
        if status >= FATAL:
            self._dead = True  # no further call is allowed, not even for freeing it
        word = _STATUS[status] if status < len(_STATUS) else f"the unknown status {status}"
        raise FmuError(f"{self.fmu.path.name}: {function} returned {word}{hint}")

    def stuck(self, t: float, end: float) -> FmuError:
        """Error for a step to `end` [s] that only reached `t` [s] in `MAX_PARTS` parts."""
        return FmuError(
            f"{self.fmu.path.name}: only reached {t:.9g} s in {MAX_PARTS} parts of its step to "
            f"{end:.9g} s{self._log_hint()}; use shorter steps, or check the model there"
        )

    def logged(self, status: int, category: bytes | None, message: bytes | None) -> None:
        """Log one message of the FMU in this process."""
        text = (message or b"").decode("utf-8", "replace").strip()
        level = _LEVELS[status] if 0 <= status < len(_LEVELS) else logging.ERROR
        if status != OK:
            self._last_message = text
        if level == logging.WARNING:
            if text in self._warned or len(self._warned) == MESSAGES:
                level = logging.DEBUG
            else:
                self._warned.add(text)
                if len(self._warned) == MESSAGES:
                    log.warning("%s: its further warnings are at debug level", self.fmu.path.name)
        word = (category or b"").decode("utf-8", "replace")
        log.log(level, "%s%s: %s", self.fmu.path.name, f" [{word}]" if word else "", text)

    def close(self) -> None:
        """Free the instance, once; after a fatal error only forget it."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self._dead:
                self._release()
        except FmuError as error:
            log.warning("while closing the FMU: %s", error)
        finally:
            self._folder.remove()

    def set_input_derivatives(self, derivatives: Floats) -> None:
        """FMI 2: set derivatives 1 … n of the continuous inputs, shape (n, n_inputs)."""
        raise NotImplementedError

    def guard(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call FMPy; its exception becomes an `FmuError`."""
        try:
            return call(*arguments)
        except FMICallException as error:
            self.check(error.function, error.status)

    def _release(self) -> None:
        """Terminate the instance if that is allowed, and free it."""
        if self._initialized and not self._failed:
            self.guard(self.fmi.terminate)
        getattr(self.fmi, f"fmi{self.fmu.major}FreeInstance")(self.fmi.component)
        self._unload()

    def _unload(self) -> None:
        """Unload the binary if its file could not be deleted otherwise.

        Elsewhere it stays loaded: FMUs with threads or an interpreter crash when unloaded.
        """
        if sys.platform == "win32":
            self.fmi.freeLibrary()

    def _log_hint(self) -> str:
        return f": {self._last_message}" if self._last_message else ""


def _places(variables: Sequence[tuple[Any, int]]) -> list[tuple[int, int, int]]:
    """(place in the vector, value reference, size) of the continuous variables."""
    places, first = [], 0
    for variable, size in variables:
        if flows(variable):
            places.append((first, variable.valueReference, size))
        first += size
    return places


def middle_and_mean(
    t: float, h: float, before: Floats, inside: list[tuple[float, Floats]], y: Floats
) -> tuple[Floats, Floats] | tuple[None, None]:
    """Outputs at ``t + h/2`` and their mean, interpolated between intermediate values, or None."""
    seen = [(time, values) for time, values in inside if t < time < t + h]
    if not seen:
        return None, None
    times = [t, *(time for time, _ in seen), t + h]
    table = np.array([before, *(values for _, values in seen), y])
    middle = np.array([np.interp(t + 0.5 * h, times, column) for column in table.T])
    return middle, np.diff(times) @ (table[1:] + table[:-1]) / (2.0 * h)
