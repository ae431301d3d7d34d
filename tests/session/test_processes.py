"""Which process of a session is told which of its secrets."""

from pathlib import Path
from types import SimpleNamespace

from hilrt.link import Command
from hilrt.record import frame_batch
from hilrt.session.processes import Processes

FILE = SimpleNamespace(folder=Path())


class Started:
    """Takes the place of the children: notes what they were given."""

    def __init__(self):
        self.env = {}

    def start(self, name, argv, *, cwd, affinity, env):
        self.env[name] = env


def link(name, *commands, buses=()):
    """A link with these commands; the recorder takes the frames of its buses."""
    return SimpleNamespace(name=name, buses=buses, commands=lambda file: list(commands))


def test_keys_and_the_way_for_frames_reach_only_what_needs_them(tmp_path):
    links = [
        link("plant", Command("plant", [])),
        link(
            "engine",
            Command("engine.emulator", [], connects=False),
            Command("engine", []),
            buses=("engine",),
        ),
    ]
    processes = Processes(tmp_path, links, None, [])
    processes.children = started = Started()
    keys = {"HILRT_KEYS": "keys"}
    processes.start_subsystems(FILE, (), keys, {frame_batch.VARIABLE: "ipc://frames"})
    assert started.env == {
        "plant": keys,
        "engine.emulator": {},
        "engine": keys | {"HILRT_FRAMES": "ipc://frames"},
    }
    processes.start_subsystems(FILE, (), {}, {})  # nothing is recorded
    assert started.env["engine"] == {}
