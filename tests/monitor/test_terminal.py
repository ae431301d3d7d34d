"""The terminal view: what it says, and that it leaves the terminal as it found it."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time

import msgspec
import pytest
import zmq
from rich.console import Console

from hilrt.monitor import terminal
from hilrt.monitor.operator_commands import KEY_VARIABLE, Reply, decode_command, encode
from hilrt.monitor.operator_keys import HELP
from hilrt.monitor.panel import Traces, closing_line, flag_words, live_view, plain_line
from hilrt.monitor.screen import Screen, watch
from hilrt.monitor.telemetry import (
    AlarmStatus,
    BondStatus,
    EventStatus,
    PeerStatus,
    Percentiles,
    RaisedFlag,
    SetPointStatus,
    Status,
    Telemetry,
    merged,
)
from hilrt.monitor.terminal import Watcher

RUNNING = Status(
    session="engine-in-the-loop",
    state="RUNNING",
    t=12.34,
    duration=30.0,
    tick=12_340,
    missed=23,
    rate_hz=998.7,
    lateness_us=Percentiles(62.0, 180.0, 412.0),
    values={"engine.torque": 123.456, "vehicle.pedal": float("nan")},
    units={"engine.torque": "N*m"},
    flags=[
        RaisedFlag("sample_late", "engine"),
        RaisedFlag("sample_late", "vehicle"),
        RaisedFlag("deadline_missed", "session"),
    ],
    bonds={"shaft": BondStatus(25_000.0, -12.5, 120.2, -3.2)},
    peers={"vehicle": PeerStatus(12, 0, 1.2)},
    verdict="degraded",
)
STOPPED = Status(session="engine-in-the-loop", state="STOPPED", message="finished")


def text_of(renderable, width=100):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(renderable)
    return console.file.getvalue()


def test_live_view_shows_the_session():
    text = text_of(live_view(RUNNING))
    for part in (
        "engine-in-the-loop  RUNNING",
        "12.3 / 30 s   998.7 Hz",
        "62 µs median, 180 p99, 412 max",
        "missed 23 of 12,340 ticks",
        "so far degraded",
        "123.5  N*m",
        "25,000",
        "sample late (engine, vehicle), deadline missed (session)",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 100


def test_live_view_fits_into_80_columns():
    lines = text_of(live_view(RUNNING), width=80).splitlines()
    assert max(map(len, lines)) == 80
    assert any("N*m" in line and "123.5" in line for line in lines)


def test_small_plots_stand_beside_the_values():
    traces = Traces()
    for i in range(4):
        values = {"engine.torque": float(i)}
        traces.add(msgspec.structs.replace(RUNNING, t=float(i), values=values))
    (line,) = (s for s in text_of(live_view(RUNNING, traces=traces)).splitlines() if "123.5" in s)
    assert "▁▃▆█" in line


def test_set_points_and_alarms_stand_apart():
    """At 80 by 24, too; what is acknowledged by the key is marked, and is no flag beside."""
    hot = AlarmStatus("hot: engine.oil above 120", 2, 3.0, 11.0)
    fast = AlarmStatus("fast", 1, 2.0, 2.0, 4.0, "Ada", 5.0)
    points = {"engine.speed_demand": SetPointStatus(210.5, 200.0, 198.7, "rad/s", "vehicle.speed")}
    status = msgspec.structs.replace(
        RUNNING,
        alarms=[fast, hot],
        set_points=points,
        flags=[*RUNNING.flags, RaisedFlag("alarm", hot.name)],
    )
    for width, height in ((100, 40), (80, 24)):
        lines = text_of(live_view(status, height=height), width=width).splitlines()
        (point,) = (line for line in lines if "speed_demand" in line)
        assert point.split()[2:6] == ["210.5", "200.0", "198.7", "rad/s"]
        assert "vehicle.speed" in point
        first, second = (line for line in lines if "alarm" in line)
        assert "▶ alarm hot: engine.oil above 120: active since 11.0 s" in first
        assert "  alarm fast: cleared at 4.0 s" in second
        assert max(map(len, lines)) <= width


def test_events_that_repeat_are_one_line():
    told = [
        EventStatus(t, f"gateway: starved for {late} ms, limit {limit}", late)
        for t, late, limit in ((1.0, 4, 99), (2.0, 62, 10), (3.0, 5, 10))
    ]
    knock = EventStatus(2.5, "Ada: knock")
    text = text_of(live_view(RUNNING, events=[*told[:2], knock, told[2]]))
    assert text.count("starved") == 1
    line = "3.0 s  gateway: starved for 62 ms, limit 10 (3 times since 1.0 s; the worst)"
    assert text.index("2.5 s  Ada: knock") < text.index(line)


def test_no_empty_table_of_bonds_is_shown():
    assert "residual J" in text_of(live_view(RUNNING))
    assert "residual J" not in text_of(live_view(msgspec.structs.replace(RUNNING, bonds={})))


def test_plain_line_is_one_line():
    line = plain_line(RUNNING)
    assert "12.3 of 30 s (41 %)" in line
    assert "| 998.7 Hz |" in line
    assert "late p99 180 µs" in line
    assert "\n" not in line


def test_the_step_of_a_sequence_and_its_question_are_shown():
    step = "t.py:3: asks 'warm?' (yes, no), at most 60 s, until 61.0 s (since 1.0 s)"
    asks = msgspec.structs.replace(RUNNING, sequences={"test": step})
    assert f"test: {step}" in text_of(live_view(asks))
    assert f"| test at {step}" in plain_line(asks)
    question = "1 yes · 2 no | test asks: " + "warm? " * 30
    lines = text_of(live_view(asks, question), width=80)
    assert lines.count("warm?") == 31  # on several lines, rather than cut


def test_flags_in_words():
    assert flag_words([]) == ""
    assert flag_words([RaisedFlag("step_minimum", "")]) == "step minimum"


def test_session_in_virtual_time_has_no_lateness():
    status = Status(session="s", state="RUNNING", t=1.0, duration=0.0, tick=3)
    assert "lateness" not in text_of(live_view(status))
    assert "late p99" not in plain_line(status)


def test_rate_that_is_not_known_yet_is_not_shown():
    status = msgspec.structs.replace(RUNNING, rate_hz=0.0)
    assert "Hz" not in text_of(live_view(status)) + plain_line(status)


def test_announcement_keeps_the_values():
    assert merged(None, STOPPED) == STOPPED
    both = merged(RUNNING, STOPPED)
    assert (both.state, both.message, both.t) == ("STOPPED", "finished", 12.34)


def test_what_is_needed_most_is_there_in_the_smallest_panel():
    many = {f"engine.signal{i}": float(i) for i in range(12)}
    flags = [RaisedFlag("sample_late", f"subsystem{i}") for i in range(60)]
    status = msgspec.structs.replace(RUNNING, values=many, flags=flags, message="because")
    lines = text_of(live_view(status, HELP, height=16), width=80).splitlines()
    assert len(lines) <= 16
    text = "\n".join(lines)
    for part in ("engine-in-the-loop  RUNNING", "degraded", "sample late", "because", HELP):
        assert part in text


def test_newest_events_are_shown_where_there_is_room():
    events = [EventStatus(float(i), f"event{i}") for i in range(9)]
    assert "event 8" not in text_of(live_view(RUNNING, height=13, events=events))
    text = text_of(live_view(RUNNING, height=30, events=events))
    assert [f"event{i}" in text for i in range(9)] == 4 * [False] + 5 * [True]


def test_events_are_shown_at_80_by_24_beside_many_values():
    many = {f"engine.signal{i}": float(i) for i in range(12)}
    status = msgspec.structs.replace(RUNNING, values=many, message="because")
    events = [EventStatus(float(i), f"event{i}") for i in range(5)]
    lines = text_of(live_view(status, HELP, height=23, events=events), width=80).splitlines()
    assert len(lines) <= 23
    text = "\n".join(lines)
    assert [f"event{i}" in text for i in range(5)] == 2 * [False] + 3 * [True]
    for part in ("engine.signal5", "sample late", "because", HELP):
        assert part in text


def test_long_names_stay_different_in_80_columns():
    names = [f"engine_test_bench.cylinder_{i}.exhaust_gas_temperature" for i in (1, 2, 3)]
    bench = "engine_test_bench_in_the_cellar"
    status = msgspec.structs.replace(
        RUNNING,
        values=dict.fromkeys(names, 1.0),
        units=dict.fromkeys(names, "degC"),
        peers={f"{bench}_{i}": PeerStatus() for i in (1, 2)},
    )
    lines = text_of(live_view(status), width=80).splitlines()
    assert max(map(len, lines)) == 80
    shown = [line.split()[1] for line in lines if "degC" in line]
    assert len(set(shown)) == 3
    assert all(name.endswith("perature") for name in shown)
    assert len({part for line in lines for part in line.split() if "llar_" in part}) == 2


def test_what_is_waited_for_is_shown_with_the_seconds():
    status = Status(session="s", state="CONNECTING", message="waiting for engine", waited_s=7.4)
    assert plain_line(status) == "s: CONNECTING | waiting for engine (7 s)"
    assert "waiting for engine (7 s)" in text_of(live_view(status))
    assert plain_line(msgspec.structs.replace(status, waited_s=0.3)).endswith("for engine")


def test_shadow_and_silence_stand_with_the_state():
    status = msgspec.structs.replace(RUNNING, shadow=True)
    for text in (text_of(live_view(status)), plain_line(status)):
        assert "RUNNING, shadow: no correction acts" in text
    for text in (text_of(live_view(RUNNING, silent_s=7.2)), plain_line(RUNNING, 7.2)):
        assert "NO DATA for 7 s (was RUNNING)" in text


def test_end_in_one_line():
    assert closing_line(merged(RUNNING, STOPPED)) == (
        "engine-in-the-loop: STOPPED, at 12.3 s, degraded, finished"
    )


def test_a_lack_of_evidence_is_told_with_the_verdict():
    status = msgspec.structs.replace(RUNNING, evidence_lacking=True)
    told = "degraded for lack of evidence"
    assert f"verdict so far {told}" in plain_line(status)
    view = " ".join(text_of(live_view(status)).replace("│", " ").split())  # it may be wrapped
    assert f"verdict so far {told}" in view
    assert f", {told}, finished" in closing_line(merged(status, STOPPED))
    assert "evidence" not in plain_line(RUNNING) + text_of(live_view(RUNNING))


class Still:
    """A session that a screen can show, and what is typed."""

    def __init__(self):
        self.status, self.stop, self.silent, self.types, self.key = RUNNING, False, False, True, "k"
        self.age, self.sent, self.typed = 0.0, [], ""

    def client(self):
        return self

    def send(self, command):
        self.sent.append(command.action)
        return 1

    def replies(self):
        return []

    def events(self):
        return []

    def type(self):
        typed, self.typed = self.typed, ""
        return typed


def screen_of(source, width, height, **console):
    made = Console(width=width, height=height, file=io.StringIO(), **console)
    return Screen(source, made, source.type, clock=lambda: 0.0), made


@pytest.mark.parametrize(
    ("width", "height", "kind"),
    [
        (70, 24, {"force_terminal": True}),
        (100, 12, {"force_terminal": True}),
        (100, 30, {"force_terminal": True}),
        (100, 30, {}),  # into a pipe, typed at a terminal
    ],
)
def test_keys_work_at_any_size(width, height, kind):
    source = Still()
    screen, console = screen_of(source, width, height, **kind)
    screen.turn()
    screen.show()
    source.typed = "\r"
    assert screen.turn()
    screen.show()
    shown = console.file.getvalue()
    screen.close()
    assert source.sent == ["arm"]
    assert "RUNNING" in shown
    assert "sent" in shown
    assert HELP in shown


def test_panel_is_drawn_anew_when_the_size_changes():
    source = Still()
    screen, console = screen_of(source, 100, 30, force_terminal=True)
    screen.turn()
    screen.show()
    console.file.truncate(0)
    console.size = (60, 12)
    assert screen.turn()
    screen.show()
    small = console.file.getvalue()
    assert "\x1b[2J" in small  # nothing of the panel is left
    assert "deadline missed (session)" in small
    assert HELP in small
    console.file.truncate(0)
    console.size = (100, 30)
    assert screen.turn()
    screen.show()
    assert "╰" in console.file.getvalue()
    screen.close()


def test_events_are_lines_of_their_own_where_there_is_no_panel():
    """Each once; not those that the line of a new state ends with."""
    source = Still()
    screen, console = screen_of(source, 200, 12, force_terminal=True, color_system=None)

    def shown(**changed):
        console.file.seek(0)
        console.file.truncate()
        source.status = msgspec.structs.replace(source.status, **changed)
        screen.show()
        return console.file.getvalue().splitlines()

    begun = EventStatus(0.0, "ARMED -> RUNNING: first tick")
    assert len(shown(message="first tick", events=[begun])) == 1
    assert shown(message="", events=[begun]) == []
    told = [begun, *(EventStatus(float(i), f"engine: {word}") for i, word in enumerate("abcd", 1))]
    lines = [f"{RUNNING.session}: {i}.0 s  engine: {word}" for i, word in enumerate("abcd", 1)]
    assert shown(events=told) == lines
    told = [*told[1:], EventStatus(5.0, "engine: e")]
    assert shown(events=told) == [f"{RUNNING.session}: 5.0 s  engine: e"]
    assert shown(events=told) == []


def test_events_that_differ_in_numbers_alone_are_a_line_and_their_count():
    """A gateway without processor time, ten times a second for 4 s: it filled the terminal."""
    source, now = Still(), [0.0]
    console = Console(
        width=200, height=12, force_terminal=True, color_system=None, file=io.StringIO()
    )
    screen = Screen(source, console, None, clock=lambda: now[0])
    events = []
    for k in range(1, 41):
        now[0] = 0.1 * k
        text = f"bench: the gateway was starved of processor time for {k % 7} ms: nothing was sent"
        events = [*events, EventStatus(now[0], text, float(k % 7))][-5:]
        source.status = msgspec.structs.replace(RUNNING, message="", events=events)
        screen.show()
    told = [line for line in console.file.getvalue().splitlines() if "starved" in line]
    assert len(told) == 2  # with the plain lines at 0.1 and 2.1 s; the rest waits for the next one
    assert "0.1 s  bench: the gateway was starved of processor time for 1 ms" in told[0]
    assert "for 6 ms: nothing was sent (20 times since 0.2 s; the worst)" in told[1]


def test_without_a_terminal_there_is_at_most_a_line_in_two_seconds():
    """Five events a second, and two stretches; each is told once, and the end at once."""
    source, now = Still(), [0.0]
    console = Console(width=200, height=30, file=io.StringIO())
    screen = Screen(source, console, source.type, clock=lambda: now[0])
    events, written, printed = [], 0, []
    for k in range(52):  # 10.4 s
        now[0] = 0.2 * k
        word = chr(ord("a") + k % 10)
        events = [*events, EventStatus(now[0], f"engine: told {word}")][-5:]
        state = "IMPAIRED" if k % 5 < 2 else "RUNNING"
        state, message = ("STOPPED", "finished") if k == 51 else (state, "")
        source.status = msgspec.structs.replace(
            RUNNING, state=state, message=message, events=events
        )
        screen.show()
        text = console.file.getvalue()
        printed += [now[0]] * text[written:].count("\n")
        written = len(text)
    assert printed == pytest.approx([0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 10.2])
    lines = text.splitlines()
    assert lines[1].endswith(
        "impaired 2 times:  | 0.2 s  engine: told b; 0.4 s  engine: told c; 0.6 s  engine: told d; "
        "0.8 s  engine: told e; 1.0 s  engine: told f; 5 more"
    )
    assert lines[-1].endswith("finished | 10.2 s  engine: told b")


def test_degraded_stretches_are_one_line_with_their_count():
    """A session went to and fro several times in a second, with two lines each time."""
    source, now = Still(), [0.0]
    console = Console(width=200, height=30, file=io.StringIO())
    screen = Screen(source, console, source.type, clock=lambda: now[0])
    for k in range(40):  # 10 s, twice in each second
        late = k % 2 == 1
        state, message = ("IMPAIRED", "samples of engine are late") if late else ("RUNNING", "")
        change = "RUNNING -> IMPAIRED" if late else "IMPAIRED -> RUNNING"
        source.status = msgspec.structs.replace(
            RUNNING,
            state=state,
            message=message,
            events=[EventStatus(now[0], f"{change}: late")],
        )
        screen.show()
        now[0] += 0.25
    lines = console.file.getvalue().splitlines()
    said = [line.partition("| verdict so far ")[2].partition(" | ")[2] for line in lines]
    assert said == ["", *["impaired 4 times: samples of engine are late"] * 4]


def test_silence_is_shown_while_it_lasts():
    source = Still()
    screen, console = screen_of(source, 100, 30)
    screen.turn()
    screen.show()
    assert "NO DATA" not in console.file.getvalue()
    source.age = 4.0
    assert screen.turn()
    screen.show()
    assert "NO DATA for 4 s" in console.file.getvalue()


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.5
        return self.now


def test_silent_session_ends_the_view(monkeypatch):
    monkeypatch.setattr(terminal, "CONNECT_S", 1.0)
    watcher = Watcher("tcp://127.0.0.1:9", clock=Clock())
    watch(watcher, lambda: None, lambda: False)
    watcher.close()
    assert watcher.silent


# -- the process ------------------------------------------------------------------------------


@contextlib.contextmanager
def publishing(*last):
    """Telemetry of a running session; after the block has ended, its last words."""
    telemetry = Telemetry("tcp://127.0.0.1:*")
    stop = threading.Event()

    def publish():
        while not stop.wait(0.02):
            telemetry.publish(RUNNING)
        for status in last:
            telemetry.publish(status)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield telemetry.address, stop
    finally:
        stop.set()
        thread.join()
        telemetry.close()


def command(address):
    return [sys.executable, "-m", "hilrt.monitor.terminal", "--connect", address]


def read_pty(fd, until, deadline_s=20.0):
    """What a pseudo-terminal shows until some bytes appear, or until it is closed."""
    os.set_blocking(fd, False)
    shown, deadline = b"", time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        try:
            part = os.read(fd, 65536)
        except BlockingIOError:
            time.sleep(0.01)
            continue
        except OSError:  # the other end is closed
            break
        shown += part
        if until and until in shown:
            break
    return shown


def resize(fd, rows, columns):
    """Give a pseudo-terminal a size."""
    import fcntl
    import struct
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextlib.contextmanager
def view_in_a_terminal(address, *options, rows=24, columns=80, **environment):
    """The view's process in a pseudo-terminal, and our end of that."""
    import pty

    ours, theirs = pty.openpty()
    resize(theirs, rows, columns)
    environment = {**os.environ, "TERM": "xterm-256color", **environment}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):  # the last two would stand for the real size
        environment.pop(name, None)
    process = subprocess.Popen(
        [*command(address), *options], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    try:
        yield process, ours
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


TERMINAL = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


@TERMINAL
@pytest.mark.parametrize("way", ["stopped", "terminated"])
def test_view_in_a_terminal_gives_the_cursor_back(way):
    with (
        publishing(STOPPED) as (address, stop),
        view_in_a_terminal(address, rows=30, columns=100) as (process, ours),
    ):
        shown = read_pty(ours, b"deadline missed")
        process.send_signal(signal.SIGINT)  # Ctrl-C is for the session
        shown += read_pty(ours, b"engine.torque")
        assert process.poll() is None
        if way == "stopped":
            stop.set()
        else:
            process.terminate()
        shown += read_pty(ours, b"")
    assert b"RUNNING" in shown
    assert b"\x1b[?25l" in shown  # the cursor was hidden
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")  # and is back
    assert b"Traceback" not in shown


@TERMINAL
def test_view_follows_the_size_of_its_terminal():
    with (
        publishing(STOPPED) as (address, stop),
        view_in_a_terminal(address) as (_, ours),
    ):
        narrow = read_pty(ours, b"deadline missed").decode()
        resize(ours, 24, 120)
        wide = read_pty(ours, ("─" * 100).encode()).decode()
        stop.set()
        read_pty(ours, b"\x1b[?25h")
    assert "─" * 50 in narrow
    assert "─" * 80 not in narrow
    assert "─" * 100 in wide


class Obeying:
    """The session's side of the keys: takes one command at a time and says that it was obeyed."""

    def __init__(self):
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self.address = f"tcp://127.0.0.1:{port}"

    def obey(self, answer):
        assert self._socket.poll(20_000), "no command has come"
        *envelope, frame = self._socket.recv_multipart()
        self._socket.send_multipart([*envelope, encode(Reply(True, answer))])
        return decode_command(frame)

    def close(self):
        self._context.destroy(linger=0)


@TERMINAL
def test_keys_operate_the_session_from_a_terminal_of_80_columns():
    session = Obeying()
    with (
        contextlib.closing(session),
        publishing(STOPPED) as (address, stop),
        view_in_a_terminal(address, "--commands", session.address, **{KEY_VARIABLE: "a-key"}) as (
            _,
            ours,
        ),
    ):
        assert HELP.encode() in read_pty(ours, HELP.encode())
        for keys, action, text in (
            ("a", "arm", ""),
            ("s", "safe", ""),
            ("h", "shadow", ""),
            ("mknock\r", "mark", "knock"),
            ("qq", "stop", ""),
        ):
            os.write(ours, keys.encode())
            obeyed = session.obey(f"did {action}")
            assert (obeyed.action, obeyed.text, obeyed.key) == (action, text, "a-key")
            answer = f"did {action}".encode()
            assert answer in read_pty(ours, answer)
        stop.set()
        read_pty(ours, b"\x1b[?25h")


@TERMINAL
def test_enter_arms_in_a_small_terminal():
    session = Obeying()
    with (
        contextlib.closing(session),
        publishing(STOPPED) as (address, stop),
        view_in_a_terminal(
            address, "--commands", session.address, rows=24, columns=70, **{KEY_VARIABLE: "a-key"}
        ) as (_, ours),
    ):
        read_pty(ours, HELP.encode())
        os.write(ours, b"\n")
        assert session.obey("arming").action == "arm"
        assert b"arming" in read_pty(ours, b"arming")
        stop.set()
        read_pty(ours, b"finished")


@pytest.mark.skipif(sys.platform == "win32", reason="starts too slowly there")
def test_view_in_a_pipe_prints_plain_lines():
    with publishing(STOPPED) as (address, stop):
        process = subprocess.Popen(
            command(address), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        first = process.stdout.readline()
        stop.set()
        rest, errors = process.communicate(timeout=20)
    assert first.startswith("engine-in-the-loop: RUNNING | 12.3 of 30 s")
    assert "engine-in-the-loop: STOPPED" in rest
    assert "finished" in rest
    assert "\x1b" not in first + rest
    assert errors == ""
