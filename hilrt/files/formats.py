"""Decoding of foreign JSON, MessagePack and XML within limits."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

import msgspec


def json_bytes(value: Any) -> bytes:
    """JSON text of a value; numbers that are not finite become null."""
    return json.dumps(json_numbers(value), indent=1, allow_nan=False).encode()


def json_numbers(value: Any) -> Any:
    """Replace numbers that are not finite, which JSON cannot represent, by None."""
    if isinstance(value, dict):
        return {key: json_numbers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [json_numbers(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_json(data: str | bytes) -> Any:
    """Parse JSON; `ValueError` for invalid text."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


T = TypeVar("T")
#: Exceptions of msgspec's decoders.
NOT_MSGPACK = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def decode_by(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    """Decode a message; `msgspec.MsgspecError` for any invalid data."""
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None


class XmlError(ValueError):
    """Invalid or unacceptable XML; its text is the reason."""


def parse_xml(data: bytes) -> Any:
    """Parse a document and return its root (`lxml.etree.Element`); `XmlError` if refused."""
    from lxml import etree  # an extra

    if b"<!DOCTYPE" in data:
        raise XmlError("it declares a document type, which is not allowed here")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise XmlError(error.msg) from None
    if root.getroottree().docinfo.internalDTD is not None:  # declared in another encoding
        raise XmlError("it declares a document type, which is not allowed here")
    return root
