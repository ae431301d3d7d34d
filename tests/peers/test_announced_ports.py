"""Ports on their way through a hello."""

import math

import pytest

from hilrt.errors import ProtocolError
from hilrt.peers import wire
from hilrt.peers.announced_ports import MAX_CHANNELS, port_to_info, ports_from_infos
from hilrt.solver import Port


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
        ({"name": ".b"}, "only inside"),
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
