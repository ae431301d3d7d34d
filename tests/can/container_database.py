"""An AUTOSAR system description with a container of two messages, as text."""

from __future__ import annotations

from pathlib import Path

#: Name of each contained message to its header, its length in bytes, and its signals: bits, start.
CONTAINED = {
    "Fast": (0x0A0B0C, 4, {"Torque": (16, 0), "Alive": (8, 24)}),
    "Slow": (0x1D2E3F, 2, {"Temp": (8, 0), "Enabled": (1, 8)}),
}
CONTAINER = 0x66


def container_arxml(folder: Path, byte_order: str = "FIRST", header: str = "SHORT-HEADER") -> Path:
    """Write it; `byte_order` is where the header's most significant byte stands, FIRST or LAST."""
    path = folder / "container.arxml"
    elements = [_cluster(), _frame(header)]
    for name, (number, length, signals) in CONTAINED.items():
        elements.append(_pdu(name, number, length, signals))
        elements += [_signal(signal, bits) for signal, (bits, _) in signals.items()]
    text = (
        "\n".join(elements)
        + f"""
<SW-BASE-TYPE><SHORT-NAME>Unsigned</SHORT-NAME><BASE-TYPE-ENCODING>NONE</BASE-TYPE-ENCODING>
</SW-BASE-TYPE>
<SYSTEM><SHORT-NAME>system</SHORT-NAME><CONTAINER-I-PDU-HEADER-BYTE-ORDER
>MOST-SIGNIFICANT-BYTE-{byte_order}</CONTAINER-I-PDU-HEADER-BYTE-ORDER></SYSTEM>"""
    )
    path.write_text(
        '<?xml version="1.0" encoding="UTF-8"?><AUTOSAR xmlns="http://autosar.org/schema/r4.0">'
        "<AR-PACKAGES><AR-PACKAGE><SHORT-NAME>p</SHORT-NAME><ELEMENTS>"
        f"{text}</ELEMENTS></AR-PACKAGE></AR-PACKAGES></AUTOSAR>",
        encoding="utf-8",
    )
    return path


def _cluster() -> str:
    triggerings = "".join(
        f"<PDU-TRIGGERING><SHORT-NAME>{name}Trigger</SHORT-NAME>"
        f'<I-PDU-REF DEST="I-SIGNAL-I-PDU">/p/{name}</I-PDU-REF></PDU-TRIGGERING>'
        for name in CONTAINED
    )
    return f"""<CAN-CLUSTER><SHORT-NAME>bus</SHORT-NAME><CAN-CLUSTER-VARIANTS>
<CAN-CLUSTER-CONDITIONAL><BAUDRATE>500000</BAUDRATE><PHYSICAL-CHANNELS><CAN-PHYSICAL-CHANNEL>
<SHORT-NAME>channel</SHORT-NAME><FRAME-TRIGGERINGS><CAN-FRAME-TRIGGERING>
<SHORT-NAME>BoxTrigger</SHORT-NAME><FRAME-REF DEST="CAN-FRAME">/p/Box</FRAME-REF>
<CAN-ADDRESSING-MODE>STANDARD</CAN-ADDRESSING-MODE><IDENTIFIER>{CONTAINER}</IDENTIFIER>
</CAN-FRAME-TRIGGERING></FRAME-TRIGGERINGS><PDU-TRIGGERINGS>{triggerings}</PDU-TRIGGERINGS>
</CAN-PHYSICAL-CHANNEL></PHYSICAL-CHANNELS></CAN-CLUSTER-CONDITIONAL></CAN-CLUSTER-VARIANTS>
</CAN-CLUSTER>"""


def _frame(header: str) -> str:
    refs = "".join(
        '<CONTAINED-PDU-TRIGGERING-REF DEST="PDU-TRIGGERING">'
        f"/p/bus/channel/{name}Trigger</CONTAINED-PDU-TRIGGERING-REF>"
        for name in CONTAINED
    )
    return f"""<CAN-FRAME><SHORT-NAME>Box</SHORT-NAME><FRAME-LENGTH>64</FRAME-LENGTH>
<PDU-TO-FRAME-MAPPINGS><PDU-TO-FRAME-MAPPING><SHORT-NAME>BoxContent</SHORT-NAME>
<PDU-REF DEST="CONTAINER-I-PDU">/p/BoxPdu</PDU-REF></PDU-TO-FRAME-MAPPING>
</PDU-TO-FRAME-MAPPINGS></CAN-FRAME>
<CONTAINER-I-PDU><SHORT-NAME>BoxPdu</SHORT-NAME><LENGTH>64</LENGTH>
<CONTAINED-PDU-TRIGGERING-REFS>{refs}</CONTAINED-PDU-TRIGGERING-REFS>
<HEADER-TYPE>{header}</HEADER-TYPE></CONTAINER-I-PDU>"""


def _pdu(name: str, number: int, length: int, signals: dict[str, tuple[int, int]]) -> str:
    places = "".join(
        f"<I-SIGNAL-TO-I-PDU-MAPPING><SHORT-NAME>{signal}Place</SHORT-NAME>"
        f'<I-SIGNAL-REF DEST="I-SIGNAL">/p/{signal}</I-SIGNAL-REF>'
        "<PACKING-BYTE-ORDER>MOST-SIGNIFICANT-BYTE-LAST</PACKING-BYTE-ORDER>"
        f"<START-POSITION>{start}</START-POSITION></I-SIGNAL-TO-I-PDU-MAPPING>"
        for signal, (_, start) in signals.items()
    )
    return f"""<I-SIGNAL-I-PDU><SHORT-NAME>{name}</SHORT-NAME><LENGTH>{length}</LENGTH>
<CONTAINED-I-PDU-PROPS><HEADER-ID-SHORT-HEADER>{number}</HEADER-ID-SHORT-HEADER>
</CONTAINED-I-PDU-PROPS><I-SIGNAL-TO-PDU-MAPPINGS>{places}</I-SIGNAL-TO-PDU-MAPPINGS>
</I-SIGNAL-I-PDU>"""


def _signal(name: str, bits: int) -> str:
    return f"""<I-SIGNAL><SHORT-NAME>{name}</SHORT-NAME><LENGTH>{bits}</LENGTH>
<NETWORK-REPRESENTATION-PROPS><SW-DATA-DEF-PROPS-VARIANTS><SW-DATA-DEF-PROPS-CONDITIONAL>
<BASE-TYPE-REF DEST="SW-BASE-TYPE">/p/Unsigned</BASE-TYPE-REF></SW-DATA-DEF-PROPS-CONDITIONAL>
</SW-DATA-DEF-PROPS-VARIANTS></NETWORK-REPRESENTATION-PROPS>
<SYSTEM-SIGNAL-REF DEST="SYSTEM-SIGNAL">/p/{name}Meaning</SYSTEM-SIGNAL-REF></I-SIGNAL>
<SYSTEM-SIGNAL><SHORT-NAME>{name}Meaning</SHORT-NAME></SYSTEM-SIGNAL>"""
