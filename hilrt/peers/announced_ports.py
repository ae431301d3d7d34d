"""Convert ports and parameters to and from their announcement in a peer's hello."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hilrt.errors import ProtocolError
from hilrt.link import LARGEST_STATE, SWITCHES, UNSEEN, LinearModel
from hilrt.peers.wire import (
    MAX_MESSAGE_BYTES,
    Linearised,
    ParameterInfo,
    PortInfo,
    encode,
    pack,
    unpack,
)
from hilrt.solver import Parameter, Port

#: Maximum scalar inputs, and outputs, of a peer, so that an advance of any order stays below the
#: maximum message size.
MAX_CHANNELS = 10_000


def port_to_info(port: Port) -> PortInfo:
    """A port as announced in `Hello`."""
    return PortInfo(
        name=port.name,
        unit=port.unit,
        start=port.start,
        min=None if math.isinf(port.min) else port.min,
        max=None if math.isinf(port.max) else port.max,
        max_rate=None if math.isinf(port.max_rate) else port.max_rate,
        max_jerk=None if math.isinf(port.max_jerk) else port.max_jerk,
        safe=port.safe,
        feedthrough=list(port.feedthrough),
        size=port.size,
        description=port.description,
    )


def parameter_to_info(parameter: Parameter) -> ParameterInfo:
    """A parameter as announced in `Hello`."""
    return ParameterInfo(
        name=parameter.name,
        unit=parameter.unit,
        default=parameter.default,
        min=None if math.isinf(parameter.min) else parameter.min,
        max=None if math.isinf(parameter.max) else parameter.max,
        description=parameter.description,
    )


def parameters_from_infos(infos: Sequence[ParameterInfo]) -> tuple[Parameter, ...]:
    """Check and convert announced parameters; raises `ProtocolError`."""
    if len(infos) > MAX_CHANNELS:
        raise ProtocolError(f"more than {MAX_CHANNELS} parameters")
    if len({info.name for info in infos}) < len(infos):
        raise ProtocolError("parameters: two have the same name")
    if not all(math.isfinite(info.default) for info in infos):
        raise ProtocolError("parameters: a default is not finite")
    try:
        return tuple(
            Parameter(
                name=info.name,
                unit=info.unit,
                default=info.default,
                min=-math.inf if info.min is None else info.min,
                max=math.inf if info.max is None else info.max,
                description=info.description,
            )
            for info in infos
        )
    except ValueError as error:
        raise ProtocolError(f"parameters: {error}") from None


def ports_from_infos(infos: Sequence[PortInfo], direction: str) -> tuple[Port, ...]:
    """Check and convert announced ports; raises `ProtocolError`.

    Parameters
    ----------
    infos : sequence of PortInfo
        As received.
    direction : str
        ``"input"`` or ``"output"``, for the message.
    """
    if sum(max(info.size, 1) for info in infos) > MAX_CHANNELS:
        raise ProtocolError(f"{direction}s: more than {MAX_CHANNELS} values")
    ports: list[Port] = []
    names: set[str] = set()
    for info in infos:
        where = f"{direction} {info.name!r}"
        numbers = (info.start, info.min, info.max, info.max_rate, info.max_jerk, info.safe)
        if any(number is not None and math.isnan(number) for number in numbers):
            raise ProtocolError(f"{where}: a bound or start value is not a number")
        if not math.isfinite(info.start):
            raise ProtocolError(f"{where}: its start value is infinite")
        if info.name in names:
            raise ProtocolError(f"{where}: announced twice")
        names.add(info.name)
        if ":" in info.name or not all(info.name.split(".")):
            raise ProtocolError(
                f"{where}: a port's name must not contain ':' or '..', or begin or end with '.'"
            )
        try:
            ports.append(_port(info))
        except ValueError as error:
            raise ProtocolError(f"{direction}s: {error}") from None
    return tuple(ports)


def _port(info: PortInfo) -> Port:
    return Port(
        name=info.name,
        unit=info.unit,
        start=info.start,
        min=-math.inf if info.min is None else info.min,
        max=math.inf if info.max is None else info.max,
        max_rate=math.inf if info.max_rate is None else info.max_rate,
        max_jerk=math.inf if info.max_jerk is None else info.max_jerk,
        safe=info.safe,
        feedthrough=tuple(info.feedthrough),
        size=info.size,
        description=info.description,
    )


# Conversion of a subsystem's matrices to the message `Linearised` and back, with checks.

#: Keys of the matrices.
_MATRICES = ("A", "B", "C", "D")


def linear_answer(model: LinearModel | None) -> Linearised:
    """Build a solver's answer, without matrices if there are none or they exceed a message."""
    if model is None or model.lacking:
        return Linearised()
    A, B, C, D, fineness = (pack(array) for array in model[:5])
    slope = None if model.slope is None else pack(model.slope)
    answer = Linearised(
        A=A,
        B=B,
        C=C,
        D=D,
        fineness=fineness,
        linear=bool(model.linear),
        slope=slope,
        inside=model.inside,
        own=None if model.own is None else pack(model.own),
    )
    return answer if len(encode(answer)) <= MAX_MESSAGE_BYTES else Linearised()


def linear_model(
    answer: Linearised, n_inputs: int, n_outputs: int, members: int = 1
) -> LinearModel | None:
    """Check and convert a solver's answer; `members` is the size of a group.

    Raises
    ------
    ProtocolError
        If a matrix does not fit the announced ports or the others, is not finite, or there are too
        many states.
    """
    if answer.A is None:
        return None
    nx = math.isqrt(len(answer.A) // 8)
    most = LARGEST_STATE * members
    if nx > most:
        raise ProtocolError(f"Linearised: {nx} states; at most {most} are accepted")
    shapes = {"A": (nx, nx), "B": (nx, n_inputs), "C": (n_outputs, nx), "D": (n_outputs, n_inputs)}
    arrays = {}
    for key in _MATRICES:
        try:
            arrays[key] = unpack(getattr(answer, key), *shapes[key])
        except ProtocolError as error:
            raise ProtocolError(f"Linearised: {key}: {error}") from None
    shares = {}
    for key in ("fineness", "slope"):
        packed = getattr(answer, key)
        try:
            shares[key] = np.ones(n_inputs) if packed is None else unpack(packed, n_inputs)
        except ProtocolError as error:
            raise ProtocolError(f"Linearised: {key}: {error}") from None
    own = None
    if answer.own is not None:
        try:
            own = arrays["own"] = unpack(answer.own, nx, 2 * (nx + 2 * n_inputs + 1) + 1)
        except ProtocolError as error:
            raise ProtocolError(f"Linearised: own: {error}") from None
    for key, array in arrays.items():
        if not np.isfinite(array).all():
            raise ProtocolError(f"Linearised: {key} contains values that are not finite")
    for key, share in shares.items():
        if not ((share >= 0.0) & (share <= 1.0)).all():
            raise ProtocolError(f"Linearised: {key} has values outside 0 to 1")
    if not UNSEEN <= answer.inside <= SWITCHES:
        raise ProtocolError(f"Linearised: inside = {answer.inside}; it must be 0, 1 or 2")
    A, B, C, D = (arrays[key] for key in _MATRICES)
    slope = shares["slope"]
    return LinearModel(
        A, B, C, D, shares["fineness"], answer.linear, slope=slope, inside=answer.inside, own=own
    )
