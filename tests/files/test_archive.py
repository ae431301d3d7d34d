"""Archives that unpack to more than they say, or to where they must not."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path

import pytest

from hilrt.errors import ConfigError
from hilrt.files import archive as room
from hilrt.files.archive import ArchiveError, open_archive, read_member, unpack
from hilrt.files.formats import XmlError, parse_xml
from hilrt.fmu import description, ssp
from hilrt.fmu.description import read_fmu
from hilrt.fmu.ssp import read_ssp


def packed(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes], method: int = 8) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content, method)
    return path


def test_members_come_out_as_they_went_in(tmp_path: Path) -> None:
    members = (("./", b""), ("a/b/c.bin", os.urandom(600_000)), ("a/empty", b""))
    path = packed(tmp_path / "a.zip", *members)
    (tmp_path / "out").mkdir()
    unpack(path, tmp_path / "out")
    with open_archive(path) as archive:
        data = read_member(archive, "a/b/c.bin", 600_000)
    assert (tmp_path / "out/a/b/c.bin").read_bytes() == data
    assert (tmp_path / "out/a/empty").read_bytes() == b""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../../outside", "outside the archive"),
        ("a/../../outside", "outside the archive"),
        ("/tmp/outside", "outside the archive"),
        ("C:/outside", "outside the archive"),
        ("a\\..\\outside", "outside the archive"),
        ("link", "'link' is a symbolic link; pack the file that it points to"),
    ],
)
def test_what_leaves_the_folder_is_refused_before_anything_is_written(
    name: str, message: str, tmp_path: Path
) -> None:
    info = zipfile.ZipInfo("x")
    info.filename = name
    if name == "link":
        info.external_attr = 0o120777 << 16
    path = packed(tmp_path / "a.zip", ("first", b"1"), (info, b"/etc/passwd"))
    (tmp_path / "out").mkdir()
    with pytest.raises(ArchiveError, match=message.replace("\\", "\\\\")):
        unpack(path, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_what_comes_out_is_counted_whatever_the_directory_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "RATIO_FROM", 1 << 20)
    path = packed(tmp_path / "a.zip", *((f"bomb{i}", bytes(900_000)) for i in range(4)))
    (tmp_path / "out").mkdir()
    with pytest.raises(ArchiveError, match=r"unpacks to more than 1,048,576 bytes"):
        unpack(path, tmp_path / "out")
    written = sum(file.stat().st_size for file in (tmp_path / "out").iterdir())
    assert written <= (1 << 20) + 2 * room._CHUNK
    small = path.read_bytes().replace(struct.pack("<L", 900_000), struct.pack("<L", 9))
    path.write_bytes(small)  # the directory, and the heads of members, say 9 bytes
    with open_archive(path) as archive, pytest.raises(ArchiveError):
        read_member(archive, "bomb0", 100)


def test_other_methods_too_many_members_and_a_large_directory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed(tmp_path / "a.zip", ("x", bytes(1000)), method=zipfile.ZIP_LZMA)
    with open_archive(path) as archive, pytest.raises(ArchiveError, match="method 14, not deflate"):
        read_member(archive, "x", 1000)
    path = packed(tmp_path / "b.zip", *((f"{i}", b"") for i in range(30)))
    for limit, message in (("MAX_MEMBERS", "29 members"), ("MAX_DIRECTORY", "29 bytes")):
        monkeypatch.setattr(room, limit, 29)
        with pytest.raises(ArchiveError, match=f"more than {message}"), open_archive(path):
            pass
        monkeypatch.undo()


def test_entities_are_refused_and_none_is_expanded() -> None:
    entities = "".join(f'<!ENTITY x{i} "{f"&x{i - 1};" * 10}">' for i in range(1, 9))
    text = f'<!DOCTYPE x [<!ENTITY x0 "laughs">{entities}]><x a="&x8;">&x8;</x>'
    for data in (text.encode(), f'<?xml version="1.0" encoding="utf-16"?>{text}'.encode("utf-16")):
        with pytest.raises(XmlError, match=r"document type|[Ee]ntity|amplification"):
            parse_xml(data)
    assert parse_xml(b"<x a='&lt;'>&amp;</x>").text == "&"


def test_descriptions_of_fmus_and_systems_have_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room_of, read, name in (
        (description, read_fmu, "modelDescription.xml"),
        (ssp, read_ssp, "SystemStructure.ssd"),
    ):
        monkeypatch.setattr(room_of, "MAX_DESCRIPTION", 1000)
        path = packed(tmp_path / f"{name}.fmu", (name, b"<x>" + b" " * 1000 + b"</x>"))
        with pytest.raises(ConfigError, match=rf"{name}' unpacks to more than 1,000 bytes"):
            read(path)


def test_a_system_whose_connectors_branch_without_end_is_refused(tmp_path: Path) -> None:
    from tests.fmu.test_ssp import HEAD, component, connection, connector

    inside = connector("u", "input") + connector("y", "output")
    systems = "".join(
        f'<ssd:System name="s{i}"><ssd:Connectors>{inside}</ssd:Connectors></ssd:System>'
        for i in range(40)
    )
    ways = "".join(connection(f"s{i}.u", f"s{i + 1}.u") * 2 for i in range(39))
    text = (
        f'{HEAD}<ssd:System name="root"><ssd:Elements>{component("a", "a.fmu")}{systems}'
        f"</ssd:Elements><ssd:Connections>{ways}{connection('s39.u', 'a.F')}</ssd:Connections>"
        "</ssd:System></ssd:SystemStructureDescription>"
    )
    path = packed(tmp_path / "a.ssp", ("SystemStructure.ssd", text.encode()))
    with pytest.raises(ConfigError, match="its connectors branch to more than"):
        read_ssp(path)


def test_a_connection_without_a_connector_is_named(tmp_path: Path) -> None:
    from tests.fmu.test_ssp import HEAD, component, connection

    nowhere = connection("a.x", "a.F").replace('startConnector="x"', "")
    text = (
        f'{HEAD}<ssd:System name="root"><ssd:Elements>{component("a", "a.fmu")}</ssd:Elements>\n'
        f"<ssd:Connections>{nowhere}</ssd:Connections></ssd:System></ssd:SystemStructureDescription>"
    )
    path = packed(tmp_path / "a.ssp", ("SystemStructure.ssd", text.encode()))
    with pytest.raises(ConfigError, match=r"Connection \(line 2\) has no startConnector"):
        read_ssp(path)


@pytest.mark.parametrize("value", ["9" * 400, "9" * 5000, "1.5"])
def test_an_integer_of_a_system_has_64_bits(value: str, tmp_path: Path) -> None:
    from tests.fmu.test_ssp import HEAD, PARAMETERS, component

    set_ = PARAMETERS.format(
        f'<ssv:Parameter name="a.n">\n<ssv:Integer value="{value}"/></ssv:Parameter>'
    )
    text = (
        f'{HEAD}<ssd:System name="root">{set_}<ssd:Elements>{component("a", "a.fmu")}'
        "</ssd:Elements></ssd:System></ssd:SystemStructureDescription>"
    )
    path = packed(tmp_path / "a.ssp", ("SystemStructure.ssd", text.encode()))
    with pytest.raises(
        ConfigError, match=r"Integer \(line 2\): value = .* is not an integer of 64"
    ):
        read_ssp(path)


def test_a_pipe_is_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ssp")
    with pytest.raises(ConfigError, match="cannot be read: it is a pipe"):
        read_ssp(tmp_path / "pipe.ssp")
