"""No feature of the documentation is lost: keys, commands, flags, signals, Python names, statuses.

`tests/data/features.txt` is the checked list, one feature a line. A feature that is removed on
purpose leaves the list in the same commit, with a line in the changelog; a new one is added, so
that it cannot be lost later. ``python -m tests.test_features`` prints the list of today's code.
"""

import re
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
import typer.main

import hilrt
from hilrt.cli import main as cli
from hilrt.cli.common import SYMPTOMS
from hilrt.config import registry
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.documentation import TITLES, in_documentation
from hilrt.errors import ExitStatus
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.reliability.causes import CAUSES
from hilrt.session.run import RunOptions
from hilrt.solver import Parameter
from hilrt.step_log.signals import build_columns
from tests.stepping import Stepping

ROOT = Path(__file__).parent.parent
LISTED = ROOT / "tests" / "data" / "features.txt"
PAGES = "\n".join(p.read_text("utf-8") for p in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
KINDS = ("key", "adapter", "command", "flag", "signal", "cause", "python", "option", "status")


def key_paths(struct: type, prefix: str):
    """Dotted names of the keys of a table and its tables; `*` is a name that a user chooses."""
    for field in msgspec.structs.fields(struct):
        path = f"{prefix}{field.encode_name}"
        yield path
        yield from inner_paths(field.type, path)


def inner_paths(hint: Any, path: str):
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield from key_paths(hint, f"{path}.")
    elif get_origin(hint) is dict:
        yield from inner_paths(get_args(hint)[1], f"{path}.*")
    elif get_origin(hint) is list:
        yield from inner_paths(get_args(hint)[0], f"{path}[]")
    else:
        for part in get_args(hint):
            yield from inner_paths(part, path)


def keys():
    yield from key_paths(Session, "")
    for adapter in adapters():
        options = registry.link_class(adapter).Options
        known = set() if options is SubsystemOptions else set(key_paths(SubsystemOptions, ""))
        yield from (f"{adapter}: {k}" for k in key_paths(options, "") if k not in known)
    group, known = registry.link_class("inprocess").GroupOptions, key_paths(SubsystemOptions, "")
    yield from (f"groups.*.{k}" for k in sorted(set(key_paths(group, "")) - set(known)))


def adapters():
    found = [e for e in entry_points(group=registry.GROUP) if e.name in registry.names()]
    return [entry.name for entry in found if entry.value.startswith("hilrt_adapters.")]


def commands(group=None, prefix="hilrt"):
    """Words of every command, and its parameters."""
    group = group or typer.main.get_command(cli.app)
    for name, command in group.commands.items():
        words = f"{prefix} {name}"
        if hasattr(command, "commands"):
            yield from commands(command, words)
        else:
            yield words, command.params


def flags():
    for words, params in commands():
        for param in params:
            for option in [*param.opts, *param.secondary_opts]:
                yield f"{words} {option}"


def signals():
    """Endings of the names of a row's signals, of a session with everything that adds some."""
    one = Mass1()
    one.outputs = tuple(replace(port, min=-1e9) for port in one.outputs)
    two = Mass2()
    two.parameters = (Parameter("k", default=1.0, min=1.0, max=2.0),)
    session = Stepping(
        {"one": one, "two": two},
        master={
            "step": 1e-3,
            "extrapolation": {"order": 2},
            "order_control": {"method": "derivatives"},
        },
        subsystems={"one": {}, "two": {}},
        connections=[
            {"from": "one.force", "to": "two.force"},
            {"from": "two.x", "to": "one.x2"},
            {"from": "two.v", "to": "one.v2"},
        ],
        bonds=[{"name": "spring", "effort": "one.force", "flow": "two.v"}],
        stimuli=[
            {"name": "kick", "input": "two.force", "segments": [{"shape": "hold", "value": 1.0}]}
        ],
        faults=[{"name": "frozen", "kind": "stuck", "output": "two.x"}],
        monitor={"adjust": {"parameters.two.k": {"min": 1.0, "max": 2.0}}},
    )
    for topic, columns in build_columns(session.numerics).items():
        for column in columns:
            name = re.sub(r"^(one|two)\.\w+", "PORT", column.signal.name)
            name = re.sub(r"^(one|two):", "SUBSYSTEM:", name)
            name = re.sub(r"^parameter:[\w.]+", "parameter:SUBSYSTEM.NAME", name)
            name = re.sub(r"^fault:\w+", "fault:NAME", name)
            name = re.sub(r"^(flags?):\w+", r"\1:CAUSE", name)
            yield f"{topic}/{re.sub(r'^spring:', 'BOND:', name)}"


def found():
    """Every feature of the code, as a line of the list."""
    by_kind = {
        "key": keys(),
        "adapter": adapters(),
        "command": (words for words, _ in commands()),
        "flag": flags(),
        "signal": signals(),
        "cause": CAUSES,
        "python": hilrt.__all__,
        "option": (name for name in RunOptions.__dataclass_fields__),
        "status": (f"{status.value} {status.name}" for status in ExitStatus),
    }
    assert tuple(by_kind) == KINDS
    return [f"{kind} {name}" for kind, names in by_kind.items() for name in sorted(set(names))]


def listed(kind: str) -> list[str]:
    lines = LISTED.read_text("utf-8").splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{kind} ")]


def test_no_feature_is_lost_and_new_ones_are_listed():
    before, now = LISTED.read_text("utf-8").splitlines(), found()
    assert [line for line in before if line not in now] == []
    assert [line for line in now if line not in before] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_list_has_every_kind(kind):
    assert len(listed(kind)) >= 5


def test_listed_keys_commands_and_flags_are_documented():
    words = set(re.findall(r"[\w-]+", PAGES))
    assert {re.split(r"[. ]", key)[-1].rstrip("[]") for key in listed("key")} - words == set()
    assert [name for name in listed("command") if name not in PAGES] == []
    silent = {p.opts[0] for _, params in commands() for p in params if not getattr(p, "help", "")}
    missing = {name for name in silent if name.startswith("--") and name not in PAGES}
    assert missing == set(), "neither on a page nor in --help"


def test_listed_signals_and_causes_are_documented():
    page = (ROOT / "docs" / "recording.md").read_text("utf-8")
    topics = {signal.partition("/")[0] for signal in listed("signal")}
    assert {topic for topic in topics if f"`{topic}`" not in page} == set()
    reliability = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    assert {cause for cause in listed("cause") if f"`{cause}`" not in reliability} == set()


if __name__ == "__main__":
    print("\n".join(found()))


def test_the_help_of_every_command_names_a_page_that_has_it():
    def groups(group, words="hilrt"):
        for name, command in group.commands.items():
            yield f"{words} {name}", command
            yield from groups(command, f"{words} {name}") if hasattr(command, "commands") else ()

    root = typer.main.get_command(cli.app)
    named = dict(groups(root))
    assert len(named) > 40
    for words, command in named.items():
        title = re.fullmatch('Explained in "(.+)" in the documentation\\.', command.epilog or "")
        assert title, words
        page = next(page for page, named in TITLES.items() if named == title[1])
        said = (ROOT / page).read_text("utf-8")
        top = " ".join(words.split()[:2])
        assert re.search(rf"{top}\b", said) or words == "hilrt sequence", words
    assert root.epilog == f"{in_documentation(SYMPTOMS)} is ordered by symptom."
