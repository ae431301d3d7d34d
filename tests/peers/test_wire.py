import importlib.util
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hilrt.errors import ProtocolError
from hilrt.hosting.solver_process import CONNECT_TIMEOUT_S
from hilrt.peers import wire
from hilrt.peers.peer_protocol import MASTER_SILENCE_HEARTBEATS, MASTER_SILENCE_S

ROOT = Path(__file__).parents[2]

PEER_MESSAGES = wire.FromPeer.__args__
MASTER_MESSAGES = wire.FromMaster.__args__

int64 = st.integers(-(2**63), 2**63 - 1)
optional_float = st.none() | st.floats(allow_nan=False)
text = st.text(max_size=8)
port_infos = st.builds(
    wire.PortInfo,
    name=text,
    unit=text,
    start=st.floats(allow_nan=False),
    min=optional_float,
    max=optional_float,
    max_rate=optional_float,
    max_jerk=optional_float,
    safe=optional_float,
    feedthrough=st.lists(text, max_size=3),
    size=int64,
    description=text,
)
parameter_infos = st.builds(
    wire.ParameterInfo,
    name=text,
    unit=text,
    default=st.floats(allow_nan=False),
    min=optional_float,
    max=optional_float,
    description=text,
)
BY_TYPE = {
    int: int64,
    float: st.floats(allow_nan=False),
    float | None: optional_float,
    wire.Interval: st.floats(0.0, 3600.0, exclude_min=True),
    str: text,
    bytes: st.binary(max_size=64),
    bool: st.booleans(),
    list[int] | None: st.none() | st.lists(int64, max_size=5),
    bytes | None: st.none() | st.binary(max_size=64),
    list[int]: st.lists(int64, max_size=5),
    list[str]: st.lists(text, max_size=3),
    dict[str, int]: st.dictionaries(text, int64, max_size=3),
    list[wire.PortInfo]: st.lists(port_infos, max_size=3),
    list[wire.ParameterInfo]: st.lists(parameter_infos, max_size=3),
}


def messages(cls):
    return st.builds(
        cls,
        **{
            field.name: BY_TYPE[field.type] if field.type in BY_TYPE else st.from_type(field.type)
            for field in msgspec.structs.fields(cls)
        },
    )


from_peer = st.one_of([messages(cls) for cls in PEER_MESSAGES])
from_master = st.one_of([messages(cls) for cls in MASTER_MESSAGES])


@pytest.mark.parametrize("cls", PEER_MESSAGES)
@given(data=st.data())
def test_messages_of_peers_round_trip(cls, data):
    message = data.draw(messages(cls))
    assert wire.decode_from_peer(wire.encode(message)) == message


@pytest.mark.parametrize("cls", MASTER_MESSAGES)
@given(data=st.data())
def test_messages_of_the_master_round_trip(cls, data):
    message = data.draw(messages(cls))
    assert wire.decode_from_master(wire.encode(message)) == message


def test_type_on_the_wire_is_the_class_name_in_snake_case():
    raw = msgspec.msgpack.decode(wire.encode(wire.SetPoints(tick=1, t=0, h=0, coefficients=b"")))
    assert raw["type"] == "set_points"


def only_protocol_errors(data):
    """Whether each side makes a message of it, or refuses it in the one way that is expected."""
    good = []
    for decode in (wire.decode_from_peer, wire.decode_from_master):
        try:
            good.append(isinstance(decode(data), wire.Message))
        except ProtocolError as error:
            good.append(bool(str(error)))
    return good == [True, True]


@given(st.binary(max_size=200))
@example(b"")
@example(b"\x91" * 100_000)
@example(b"\x82\xa4type\xa5hello\xa1x" + b"\x91" * 100_000)
@example(b"\x82\xa4type\xa5hello\xa6inputs\xdd\xff\xff\xff\xff")
@example(b"\xdf\xff\xff\xff\xff")
def test_random_bytes_are_refused(data):
    assert only_protocol_errors(data)


@given(from_peer | from_master, st.data())
def test_truncated_messages_are_refused(message, data):
    whole = wire.encode(message)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for decode in (wire.decode_from_peer, wire.decode_from_master):
        with pytest.raises(ProtocolError):
            decode(cut)


@given(from_peer | from_master, st.data())
def test_changed_bytes_are_refused_or_a_message(message, data):
    damaged = bytearray(wire.encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    assert only_protocol_errors(bytes(damaged))


junk = st.none() | st.booleans() | int64 | st.floats() | st.text() | st.binary() | st.just([{}])


@given(from_peer | from_master, st.data())
def test_wrong_types_and_missing_keys_are_refused_or_a_message(message, data):
    raw = msgspec.msgpack.decode(wire.encode(message))
    key = data.draw(st.sampled_from(sorted(raw)))
    if data.draw(st.booleans()):
        raw[key] = data.draw(junk)
    else:
        del raw[key]
    assert only_protocol_errors(msgspec.msgpack.encode(raw))


def test_unknown_types_are_refused_and_unknown_keys_ignored():
    with pytest.raises(ProtocolError, match="save_state"):
        wire.decode_from_master(msgspec.msgpack.encode({"type": "save_state"}))
    raw = {"type": "error", "text": "x", "later": [1, {"a": None}]}
    assert wire.decode_from_peer(msgspec.msgpack.encode(raw)) == wire.Error(text="x")


def test_messages_of_the_other_side_are_refused():
    with pytest.raises(ProtocolError):
        wire.decode_from_peer(wire.encode(wire.Stop(reason="")))
    with pytest.raises(ProtocolError):
        wire.decode_from_master(wire.encode(wire.Stopped()))


def test_messages_over_the_limit_are_refused_whatever_they_are():
    big = wire.encode(wire.Error(text="x" * wire.MAX_MESSAGE_BYTES))
    with pytest.raises(ProtocolError, match=str(len(big))):
        wire.decode_from_peer(big)


@given(
    st.integers(0, 4).flatmap(
        lambda n: st.lists(st.lists(st.floats(), min_size=n, max_size=n), min_size=1, max_size=4)
    )
)
def test_arrays_round_trip_bit_for_bit(rows):
    array = np.array(rows, dtype=float).reshape(len(rows), -1)
    data = wire.pack(array)
    if array.shape[1]:
        assert wire.unpack(data, -1, array.shape[1]).tobytes() == array.tobytes()
    assert wire.unpack(data, *array.shape).shape == array.shape


def test_pack_is_row_major_little_endian_whatever_the_array_is_in_memory():
    array = np.arange(6.0).reshape(2, 3)
    assert wire.pack(np.asfortranarray(array)) == array.astype("<f8").tobytes()
    assert wire.pack(array.astype(">f8")) == array.astype("<f8").tobytes()
    assert wire.pack(np.arange(3)) == np.arange(3.0).tobytes()


@given(st.binary(max_size=100), st.integers(-1, 4), st.integers(0, 4))
def test_arrays_of_the_wrong_length_are_refused(data, rows, columns):
    try:
        array = wire.unpack(data, rows, columns)
    except ProtocolError:
        whole_rows = len(data) % (8 * columns) == 0 if columns else not data
        assert not whole_rows if rows < 0 else len(data) != 8 * rows * columns
        return
    assert array.nbytes == len(data)


def test_without_inputs_there_is_one_row_of_coefficients():
    assert wire.unpack(b"", -1, 0).shape == (1, 0)


def examples_tool():
    path = ROOT / "tools" / "protocol_examples.py"
    spec = importlib.util.spec_from_file_location("protocol_examples", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_example_bytes_of_the_documentation_are_what_encode_gives():
    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    tool = examples_tool()
    documented = tool.documented(text)
    assert documented == {name: wire.encode(message) for name, message in tool.EXAMPLES.items()}


def test_the_documented_solver_is_as_patient_as_ours():
    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    outline = text.partition("## A solver in outline")[2]
    patience = re.findall(r"patience = (.*?) *(?:#.*)?$", outline, re.MULTILINE)
    lost = f"max({MASTER_SILENCE_S:g} s, {MASTER_SILENCE_HEARTBEATS} heartbeat_s)"
    assert patience == [f"{CONNECT_TIMEOUT_S:g} s", lost]  # before the welcome, and after it


def test_every_message_and_field_is_documented():
    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    for cls in {*PEER_MESSAGES, *MASTER_MESSAGES}:
        tag = cls.__struct_config__.tag
        section = re.search(rf"^### `{tag}`.*?(?=^##)", text, re.MULTILINE | re.DOTALL)
        assert section, f"{tag} is not described"
        for field in cls.__struct_fields__:
            assert f"`{field}`" in section[0], f"{tag}.{field} is not described"
    for field in wire.PortInfo.__struct_fields__:
        assert f"| `{field}` |" in text
