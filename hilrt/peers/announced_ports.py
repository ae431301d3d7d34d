"""Ports and parameters as a peer announces them in its hello, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hilrt.errors import ProtocolError
from hilrt.peers.wire import ParameterInfo, PortInfo
from hilrt.solver import Parameter, Port

#: Most scalar inputs, and most scalar outputs, of one peer: an advance of any order stays below
#: the largest message.
MAX_CHANNELS = 10_000


def port_to_info(port: Port) -> PortInfo:
    """A port as it is announced in `Hello`."""
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
    """A parameter as it is announced in `Hello`."""
    return ParameterInfo(
        name=parameter.name,
        unit=parameter.unit,
        default=parameter.default,
        min=None if math.isinf(parameter.min) else parameter.min,
        max=None if math.isinf(parameter.max) else parameter.max,
        description=parameter.description,
    )


def parameters_from_infos(infos: Sequence[ParameterInfo]) -> tuple[Parameter, ...]:
    """Announced parameters, checked; `ProtocolError` describes the problem."""
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
    """Announced ports, checked; `ProtocolError` describes the problem.

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
            raise ProtocolError(f"{where}: a port's name has no ':', and '.' only inside")
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
