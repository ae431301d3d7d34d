"""Tables of single messages: what does not fit is named with a remedy."""

from __future__ import annotations

from typing import Any

import cantools
import msgspec
import pytest

from hilrt.can.message_options import MessageOptions, check_messages, counter_of
from tests.can.small_database import PLAIN

MESSAGES = {message.name: message for message in PLAIN.messages}


def problems(name: str, **keys: Any) -> list[str]:
    options = {name: msgspec.convert(keys, MessageOptions)}
    received = [MESSAGES["Fast"], MESSAGES["Slow"]]
    return check_messages("[subsystems.engine]", options, [MESSAGES["Demand"]], received)


def test_good_tables_have_no_problems() -> None:
    assert problems("Fast", timeout=0.1, counter="Alive", max_lost=3) == []
    assert problems("Demand", send="cyclic", cycle=0.1, values={"Mode": 2}) == []
    assert problems("Fast", protection={"method": "e2e1", "data_id": 1}) == []


@pytest.mark.parametrize(
    ("name", "keys", "text"),
    [
        ("Fats", {}, "is neither sent nor received here; did you mean 'Fast'"),
        ("Fast", {"counter": "Aliv"}, "no such signal; did you mean 'Alive'"),
        ("Demand", {"values": {"Mod": 1}}, "no such signal; did you mean 'Mode'"),
        ("Demand", {"last": {"Mod": 1}}, "no such signal; did you mean 'Mode'"),
        ("Demand", {"send": "cyclic"}, "cycle: is missing"),
        ("Demand", {"timeout": 1}, "timeout: is for messages that are received"),
        ("Fast", {"send": "change"}, "send: is for messages that are sent"),
        ("Slow", {"source": 3}, "is no J1939 message"),
        ("Fast", {"protection": {"method": "e2e1"}}, "protection data_id: is missing"),
    ],
)
def test_problems_are_named(name: str, keys: dict[str, Any], text: str) -> None:
    found = problems(name, **keys)
    assert len(found) == 1, found
    assert text in found[0]
    assert found[0].startswith(f"[subsystems.engine] messages.{name}")


def test_a_floating_point_number_is_no_counter() -> None:
    """Its frames may hold what is no number, which must not end a gateway."""
    message = cantools.database.load_string(
        'VERSION ""\nBU_: A\nBO_ 1 Real: 4 A\n SG_ Alive : 0|32@1- (1,0) [0|0] "" A\n'
        "SIG_VALTYPE_ 1 Alive : 1;\n",
        "dbc",
    ).messages[0]
    assert counter_of(MessageOptions(), message, "Alive") is None
    named = {"Real": MessageOptions(counter="Alive")}
    found = check_messages("[subsystems.engine]", named, [], [message])
    assert len(found) == 1
    assert "messages.Real counter = 'Alive': is a floating-point number" in found[0]
