"""Valid files as samples: the project's own and generated ones, all small."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from hilrt.record.logged_frame import FrameFlag, LoggedFrame

ROOT = Path(__file__).resolve().parents[3]
EPOCH_NS = 1_780_000_000_123_456_000


def of_files(*patterns: str) -> list[bytes]:
    """Files of the project that match patterns."""
    found = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    return [path.read_bytes() for path in found]


def written(name: str, *writers: Callable[[Path], None]) -> list[bytes]:
    """One file of that name by each of the writers."""
    import tempfile

    made = []
    for write in writers:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / name)
            made.append((Path(folder) / name).read_bytes())
    return made


def frames(n: int = 24) -> list[LoggedFrame]:
    """CAN frames of all kinds on two buses."""
    fd = FrameFlag.FD | FrameFlag.BIT_RATE_SWITCH
    kinds = (0, FrameFlag.EXTENDED, FrameFlag.EXTENDED | FrameFlag.SENT, fd, FrameFlag.REMOTE)
    found = []
    for i in range(n):
        flags = int(kinds[i % len(kinds)])
        data = b"" if flags & FrameFlag.REMOTE else bytes(range(i % 9))
        identifier = 0x18FEF100 + i if flags & FrameFlag.EXTENDED else 0x100 + i
        at = EPOCH_NS + 1_000_000 * i
        found.append(LoggedFrame(at, str(i % 2), identifier, flags, len(data), data))
    return found


def log(path: Path, *, rows: int = 40, bus: bool = True) -> None:
    """Write a log of hilrt with two topics, frames, an attachment and facts."""
    from hilrt.logs.import_file import LogWriter
    from hilrt.record.messages import Signal
    from hilrt.record.reader import Block, LogChannel

    writer = LogWriter(path, "fuzzed", EPOCH_NS, {"imported": "nothing"})
    writer.attach("session.toml", "application/toml", b"[session]\n")
    for name, step in (("fast", 1_000_000), ("slow", 10_000_000)):
        signals = [Signal(f"{name}.x", "m", "made"), Signal(f"{name}.v", "m/s")]
        times = np.arange(rows, dtype=np.int64) * step
        writer.block(Block(LogChannel(name, signals), times, np.sin(times / 1e8)[:, None] * [1, 2]))
    for frame in frames() if bus else ():
        writer.frame(frame)
    writer.close()


def recorded(path: Path) -> None:
    """Write a log with the recorder."""
    from hilrt.record.messages import Attachment, Begin, RecordEnd, RecordEvent, Signal, Topic
    from hilrt.record.recording import Recording

    begin = Begin(
        out_dir=str(path.parent),
        session="drive",
        epoch_ns=EPOCH_NS,
        topics=[Topic("outputs", [Signal("a.x", "m"), Signal("a.v", "m/s")])],
        attachments=[Attachment("session.toml", "application/toml", b"[session]\n")],
        metadata={"bonds": "[]"},
    )
    recording = Recording(begin)
    recording.batch(0, np.arange(64, dtype=np.int64) * 1_000_000, np.ones((64, 2)))
    recording.event(RecordEvent(5_000_000, "warning", "alarm", "engine", "too hot: 95 °C"))
    recording.finish(RecordEnd(summary=b"{}", rows=64, events=1))
    recording.path.rename(path)


def unchecked_log(path: Path, *, chunked: bool = True) -> None:
    """Write a log without checksums, so that changes reach the readers."""
    from mcap.writer import CompressionType, Writer

    with path.open("wb") as file:
        writer = Writer(
            file,
            compression=CompressionType.LZ4 if chunked else CompressionType.NONE,
            use_chunking=chunked,
            enable_crcs=False,
            enable_data_crcs=False,
        )
        writer.start()
        writer.add_metadata("hilrt", {"session": "x", "epoch_ns": str(EPOCH_NS), "hilrt": "0"})
        text = b"float64 x\nfloat64 v\n"
        schema = writer.register_schema("hilrt/msg/outputs", "ros2msg", text)
        signals = {"signals": '[["a.x","m","",""],["a.v","m/s","",""]]'}
        channel = writer.register_channel("/outputs", "cdr", schema, signals)
        bus = writer.register_channel("/can/0", "cdr", schema, {"frames": "can"})
        from hilrt.record.logged_frame import encode

        for i, frame in enumerate(frames()):
            body = b"\0\1\0\0" + np.array([i, 2.0 * i]).tobytes()
            writer.add_message(channel, frame.time_ns, body, frame.time_ns, i)
            writer.add_message(bus, frame.time_ns, encode(frame), frame.time_ns, i)
        writer.finish()  # type: ignore[no-untyped-call]


def unchunked_log(path: Path) -> None:
    """Write a log like `unchecked_log`, but without chunks."""
    unchecked_log(path, chunked=False)


def text_log(suffix: str) -> list[bytes]:
    """CAN logs from this project's writers."""

    def write(path: Path, buses: Sequence[str]) -> None:
        from hilrt.logs.export_can import export_can
        from hilrt.logs.open_source import open_source

        whole = path.with_name("made.mcap")
        log(whole, rows=1)
        source = open_source(whole)
        export_can(source, None, (-(1 << 62), 1 << 62), path)
        source.close()

    return written(f"log{suffix}", lambda path: write(path, ("0", "1")))


def mdf_3(path: Path) -> None:
    """An MDF file of version 3."""
    from asammdf import MDF, Signal

    t = np.arange(50) * 0.01
    file = MDF(version="3.30")
    file.append([Signal(np.sin(t), t, name="x", unit="m"), Signal(np.arange(50), t, name="n")])
    file.save(path, overwrite=True)
    file.close()


def mdf_4(path: Path) -> None:
    """An MDF file of version 4, as this project exports signals and frames."""
    from hilrt.logs.export_file import export_file

    whole = path.with_name("made.mcap")
    log(whole)
    export_file(whole, "mf4", path)


def mdf_4_packed(path: Path) -> None:
    """An MDF file of version 4 with conversions, text and compressed blocks."""
    from asammdf import MDF, Signal

    t = np.arange(300) * 0.01
    file = MDF(version="4.10")
    linear: dict[str, object] = {"a": 0.5, "b": -1.0}
    table = {"val_0": 0, "text_0": b"off", "val_1": 1, "text_1": b"on", "default": b"?"}
    file.append(
        [
            Signal(np.arange(300, dtype="u2"), t, name="raw", unit="V", conversion=linear),
            Signal(np.arange(300, dtype="u1") % 3, t, name="state", conversion=table),
            Signal(np.array([b"text"] * 300), t, name="words", encoding="utf-8"),
        ]
    )
    file.attach(b"hello", file_name="a.txt", mime="text/plain")
    file.save(path, compression=2, overwrite=True)
    file.close()


def parquet(path: Path) -> None:
    """Write a table with a unit of its time, numbers and text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    t = pa.field("time", pa.float64(), metadata={"unit": "s"})
    x = pa.field("x", pa.float64(), metadata={"unit": "m"})
    schema = pa.schema([t, x, pa.field("n", pa.int32()), pa.field("word", pa.string())])
    times = np.arange(60) * 0.01
    columns = [times, np.sin(times), np.arange(60, dtype=np.int32), ["a", "b", "c"] * 20]
    pq.write_table(pa.table(columns, schema=schema), path, compression="gzip")


def parquet_of_stamps(path: Path) -> None:
    """Write a table with dates as its time, with nulls, in several groups of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stamps = pa.array(np.arange(40) * 1_000_000 + EPOCH_NS // 1000, pa.timestamp("us", "UTC"))
    table = pa.table({"timestamp": stamps, "x": pa.array([None, 1.5] * 20, pa.float64())})
    pq.write_table(table, path, row_group_size=16)


CSV = (
    b"time [s],torque [N*m],speed\n0.0,1.5,2\n0.01,1.6,3\n0.02,,4\n",
    "t;Größe;n\ns;mm;-\n0,0;1,5;2\n0,1;1,6;3\n".encode(),
    b"# made\ntime,x\n0,nan\n1e-3,inf\n2e-3,-1e-300\n",
)


def packed(members: dict[str, bytes | str]) -> bytes:
    """Pack members into an archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()
