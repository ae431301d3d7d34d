"""Ports on their way through a hello."""

import math

import pytest

from hilrt.errors import ProtocolError
from hilrt.peers import wire
from hilrt.peers.announced_ports import (
    MAX_CHANNELS,
    parameter_to_info,
    parameters_from_infos,
    port_to_info,
    ports_from_infos,
)
from hilrt.solver import Parameter, Port


def test_ports_round_trip():
    ports = (
        Port("pedal", "%", 1.0, 0.0, 100.0, 500.0, safe=0.0, description="what the foot does"),
        Port("y", feedthrough=("pedal",), size=3),
    )
    infos = [port_to_info(port) for port in ports]
    hello = wire.Hello(version=1, role="solver", name="v", inputs=infos, outputs=[])
    received = wire.decode_from_peer(wire.encode(hello))
    assert ports_from_infos(received.inputs, "input") == ports


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"name": ""}, "name"),
        ({"name": "a:b"}, "a:b"),
        ({"name": ".b"}, "begin or end"),
        ({"name": "a", "size": 0}, "size"),
        ({"name": "a", "size": MAX_CHANNELS + 1}, "values"),
        ({"name": "a", "min": 1.0, "max": 0.0}, "above"),
        ({"name": "a", "start": math.inf}, "start"),
        ({"name": "a", "max_rate": math.nan}, "not a number"),
        ({"name": "twice"}, "twice"),
    ],
)
def test_bad_ports_are_refused_with_what_is_wrong(info, text):
    with pytest.raises(ProtocolError, match=text):
        ports_from_infos([wire.PortInfo(name="twice"), wire.PortInfo(**info)], "output")


def test_parameters_round_trip():
    parameters = (Parameter("k", "N/m", 40.0, 1.0, 900.0, "of the spring"), Parameter("m"))
    infos = [parameter_to_info(parameter) for parameter in parameters]
    hello = wire.Hello(version=1, role="solver", name="v", inputs=[], outputs=[], parameters=infos)
    received = wire.decode_from_peer(wire.encode(hello))
    assert parameters_from_infos(received.parameters) == parameters


@pytest.mark.parametrize(
    ("infos", "text"),
    [
        ([{"name": ""}], "name"),
        ([{"name": "k"}, {"name": "k"}], "same name"),
        ([{"name": "k", "default": math.inf}], "not finite"),
        ([{"name": "k", "min": math.nan}], "outside"),
        ([{"name": "k", "default": 2.0, "max": 1.0}], "2 is outside"),
        ([{"name": f"k{i}"} for i in range(MAX_CHANNELS + 1)], "more than"),
    ],
)
def test_bad_parameters_are_refused_with_what_is_wrong(infos, text):
    with pytest.raises(ProtocolError, match=text):
        parameters_from_infos([wire.ParameterInfo(**info) for info in infos])
