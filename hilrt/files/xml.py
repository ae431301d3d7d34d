"""XML of strangers: no document types, so no entities that expand or name other files.

libxml2 bounds depth, length of texts and expansion by itself; a document type is refused besides,
because files of FMI, SSP and CAN databases have none. defusedxml, which is for the parsers of the
standard library, would leave the same line to write for lxml.
"""

from __future__ import annotations

from typing import Any

from lxml import etree


class XmlError(ValueError):
    """No XML, or none that is taken; its text says why."""


def parse_xml(data: bytes) -> Any:
    """Root of a document (`lxml.etree.Element`); `XmlError`."""
    if b"<!DOCTYPE" in data:
        raise XmlError("it declares a document type, which such files do not have")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise XmlError(error.msg) from None
    if root.getroottree().docinfo.internalDTD is not None:  # in another encoding
        raise XmlError("it declares a document type, which such files do not have")
    return root
