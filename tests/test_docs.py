"""The documentation says what the code does: keys, causes, commands, snippets, links."""

import ast
import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pytest
import typer.main
from markdown_it import MarkdownIt

import hilrt
from hilrt.bench.bench_options import BenchInput
from hilrt.can.bus_faults import BusFaults
from hilrt.check.check import check_file
from hilrt.check.draft_session import draft_session
from hilrt.cli import main as cli
from hilrt.config import registry
from hilrt.config import structs as config
from hilrt.config.session_file import load_session, read_session
from hilrt.monitor.session_state import SessionState
from hilrt.peers.keys import is_local
from hilrt.reliability.causes import CAUSES
from hilrt.session.live_session import LiveSession
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt_adapters.zeromq import ZeroMQOptions
from tools import reference

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])

# -- what the structs say ------------------------------------------------------------------------


def structs_inside(hint):
    """Structs that a type mentions, however deep."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
        for field in msgspec.structs.fields(hint):
            yield from structs_inside(field.type)
    for part in get_args(hint):
        yield from structs_inside(part)


# -- what the pages say --------------------------------------------------------------------------


def table_rows(text):
    """Cells of the table's rows, without head and rule."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def table_rows_of_all(text):
    """Cells of the rows of all tables of a page."""
    return [row for part in text.split("\n## ") for row in table_rows(part)]


def test_the_tables_of_the_session_file_are_those_of_the_structs():
    page = reference.PAGE.read_text(encoding="utf-8")
    assert page == reference.filled(page), "python -m tools.reference writes them"


def test_the_tables_of_the_summary_are_those_of_the_structs():
    page = reference.SUMMARY_PAGE.read_text(encoding="utf-8")
    assert page == reference.filled_summary(page), "python -m tools.reference writes them"
    assert "| `time_s` | number | s | Session time reached. |\n" in page
    assert "| `order` | [object](#order) or null | | " in page


def test_a_table_of_keys_has_type_default_unit_and_meaning():
    rows = {row[0]: row[1:] for row in table_rows(reference.key_table(config.MasterTable))}
    assert rows["`step`"][:3] == ["number > 0, ≤ 100", "required", "s"]
    assert rows["`dispatch_deadline`"][:3] == ["number > 0, ≤ 1", "`0.2`", "share of `step`"]
    assert rows["`pacing`"][:3] == ["[table](#masterpacing)", "`{}`", ""]
    assert rows["`keys`"][1] == "–"
    assert rows["`keys`"][3].endswith("must have to connect ([keys](keys.md)).")
    inputs = table_rows(reference.key_table(BenchInput))
    assert [row[0] for row in inputs] == ["`signal`", "`realised`", "`enumerated`"]


def own_adapters():
    """Names of the adapters of this package that a session file may choose."""
    found = [e for e in entry_points(group=registry.GROUP) if e.name in registry.names()]
    return {entry.name for entry in found if entry.value.startswith("hilrt_adapters.")}


def test_every_struct_of_a_session_file_has_a_section():
    known = {*reference.SECTIONS.values(), config.Session, ZeroMQOptions}
    found = set(structs_inside(config.Session))
    for name in own_adapters():
        found |= set(structs_inside(registry.link_class(name).Options))
    assert found <= known, f"not in docs/session.md: {[s.__name__ for s in found - known]}"


def test_zeromq_adds_no_keys():
    assert ZeroMQOptions.__struct_fields__ == config.SubsystemOptions.__struct_fields__


def test_every_state_is_in_the_drawing():
    text = (DOCS / "session_life.md").read_text(encoding="utf-8")
    assert [state for state in SessionState if state not in text] == []


def test_every_cause_has_its_row():
    page = (DOCS / "reliability.md").read_text(encoding="utf-8")
    rows = table_rows(page.partition("## Causes")[2].partition("\n## ")[0])
    documented = {row[0].strip("`"): (row[-2], row[-1]) for row in rows}
    expected = {
        name: ("explains", "explains")
        if cause.explains
        else tuple(
            "never" if share > 1 else f"{100 * share:g} %"
            for share in (cause.degraded, cause.unreliable)
        )
        for name, cause in CAUSES.items()
    }
    assert documented == expected


def test_every_adapter_and_its_class_is_in_the_table():
    rows = table_rows((DOCS / "adapters.md").read_text(encoding="utf-8"))
    names = {row[0].strip("`") for row in rows}
    assert own_adapters() <= names


# -- links, files, commands ----------------------------------------------------------------------


def anchors(path):
    """Anchors of a page's headings, as hosting sites make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


#: An address of another site: encrypted, and without punctuation of the sentence at its end.
EXTERNAL = re.compile(r"https://[\w-]+(\.[\w-]+)+(/[\w.~%()-]+)*/?(#[\w-]+)?(?<![.,;])")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            assert EXTERNAL.fullmatch(target), f"{page.name}: {target}"
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{page.name}: {target}"


def test_every_room_has_its_row():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = re.search(r"\n## Rooms\n(.*?)\n## ", text, re.DOTALL)[1]
    rooms = {path.parent.name for path in ROOT.glob("hilrt/*/__init__.py")}
    assert set(re.findall(r"`hilrt/(\w+)/`", rows)) == rooms


def test_every_room_names_its_files():
    for room in ROOT.glob("hilrt/*/__init__.py"):
        files = {path.stem for path in room.parent.glob("*.py")} - {"__init__", "__main__"}
        named = set(re.findall(r"`(\w+)`", ast.get_docstring(ast.parse(room.read_text("utf-8")))))
        assert files <= named, f"{room.parent.name}: {sorted(files - named)}"


def test_a_class_or_file_name_means_one_thing():
    files = [*ROOT.glob("hilrt/**/*.py"), *ROOT.glob("adapters/**/*.py")]
    stems = Counter(path.stem for path in files)
    classes = Counter(
        node.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []
    assert {name for name, count in stems.items() if count > 1} <= {"__init__", "__main__"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_the_project_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:hilrt|adapters|bench_configs|tests|tools|docs)/[\w./-]+)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_promise_of_the_threat_model_names_tests_and_tools_that_exist():
    text = (DOCS / "threat_model.md").read_text(encoding="utf-8")
    promises = re.findall(r"^\| (?!Promise|-)(.+) \| (.+) \|$", text, flags=re.M)
    assert len(promises) > 20
    for promise, shown in promises:
        assert re.fullmatch(r"(`(tests|tools)/[^`]+`(, )?)+", shown), promise
    tests = re.findall(r"`(tests/[^`:]+)::(\w+)`", text)
    assert len(tests) > 40
    for path, name in tests:
        assert re.search(rf"^ *(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.M), name
    assert all((ROOT / tool).exists() for tool in re.findall(r"`(tools/[\w.]+)`", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_exist(page):
    commands = typer.main.get_command(cli.app).commands
    for command, rest in re.findall(r"\bhilrt ([\w-]+)(.*)", page.read_text(encoding="utf-8")):
        if command not in commands:  # prose
            continue
        found = commands[command]
        if hasattr(found, "commands"):  # a group: its command follows
            found = found.commands[re.match(r" (\w+)", rest)[1]] if rest.startswith(" ") else found
        known = {option for p in found.params for option in p.opts} | {"--help"}
        # What follows a pipe or the end of a piece of code belongs to something else.
        used = re.findall(r"(?<![\w-])--[a-z-]+", re.split(r"[`|&]", rest)[0])
        assert set(used) <= known, f"{page.name}: hilrt {command}{rest}"


def test_extras_that_pages_and_messages_name_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    folders = [*PAGES, *DOCS.rglob("*.py"), *ROOT.glob("hilrt/**/*.py")]
    text = "\n".join(path.read_text("utf-8") for path in folders)
    named = re.findall(r"(?:hilrt|'\.)\[([a-z,]+)\]", text)
    assert len(named) > 30
    assert set(",".join(named).split(",")) <= set(project["optional-dependencies"])


def texts_of_the_program():
    """String constants of the sources, with … for what is filled in."""
    texts = []
    for path in (*ROOT.glob("hilrt/**/*.py"), *ROOT.glob("adapters/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [v.value if isinstance(v, ast.Constant) else "…" for v in node.values]
                texts.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def test_the_messages_of_the_troubleshooting_page_are_those_of_the_program():
    page = (DOCS / "howto" / "troubleshooting.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```", page, flags=re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    texts = texts_of_the_program()
    parts = [(line, part.strip()) for line in lines for part in line.split("…")]
    unknown = [(line, part) for line, part in parts if part not in texts]
    assert len(lines) > 40
    assert unknown == []


#: Functions that note an event: where among their arguments the cause may be.
NOTING = {
    "note": slice(3, 4),
    "_event": slice(1, 2),
    "event": slice(1, 3),
    "secure": slice(1, 2),
    "RecordEvent": slice(2, 3),
    "Event": slice(0),
}


def causes_of_events():
    """Causes of events that the sources note as constants, and all constants of the sources."""
    causes, constants = set(), set()
    for path in (*ROOT.glob("hilrt/**/*.py"), *ROOT.glob("adapters/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant):
                constants.add(node.value)
            if isinstance(node, ast.Call):
                function = node.func
                name = function.attr if isinstance(function, ast.Attribute) else ""
                name = function.id if isinstance(function, ast.Name) else name
                given = node.args[NOTING[name]] if name in NOTING else []
                given += [k.value for k in node.keywords if k.arg == "cause" and name in NOTING]
                causes |= {each.value for each in given if isinstance(each, ast.Constant)}
    return causes - {"info", "warning", "error"}, constants


def test_every_cause_of_an_event_is_on_its_page():
    page = (DOCS / "reference" / "events.md").read_text(encoding="utf-8")
    documented = {
        cause for row in table_rows_of_all(page) for cause in re.findall(r"`(\w+)`", row[0])
    }
    causes, constants = causes_of_events()
    assert len(causes) > 25
    assert causes - documented == set()
    faults = {f"can_{field}" for field in BusFaults.__struct_fields__}
    assert documented - faults - constants == set()
    assert faults <= documented


# -- snippets ------------------------------------------------------------------------------------


def blocks_of(page):
    """Fenced and indented blocks of a page: language, line, text."""
    tokens = MarkdownIt().parse(page.read_text("utf-8"))
    return [(t.info, t.map[0] + 1, t.content) for t in tokens if t.type in ("fence", "code_block")]


def files_of(page):
    """Complete files on a page: blocks whose first line is ``# NAME``, by name."""
    blocks = [text for kind, _, text in blocks_of(page) if kind in ("python", "toml", "dbc")]
    named = [(re.match(r'(?:# |VERSION "|""")([\w-]+\.\w+)', block), block) for block in blocks]
    return {match[1]: block for match, block in named if match}


@pytest.fixture
def own_bench(tmp_path):
    """The files of docs/own_bench.md in a folder."""
    for name, text in files_of(DOCS / "own_bench.md").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_own_models_run(own_bench):
    result = run_session(
        load_session(own_bench / "first.toml"),
        options=RunOptions(out=own_bench / "runs", record=False),
    )
    assert result.exit_status == 0
    assert result.summary["verdict"] == "good"
    # At rest torque and drag balance: 50 (1 - w/300) = 0.1 w, so w = 187.5 rad/s.
    assert result.summary["ports"]["load.speed"]["last"] == pytest.approx(187.5, rel=0.01)


def test_the_example_of_the_readme_runs(tmp_path):
    for name, text in files_of(ROOT / "README.md").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    text = draft_session("clutch", ["clutch:Left", "clutch:Right"], tmp_path)
    (tmp_path / "clutch.toml").write_text(text, encoding="utf-8")
    result = hilrt.simulate(tmp_path / "clutch.toml")
    assert result.verdict == "good"
    # The momentum is kept; the difference of the speeds decays by 0.5 (1/1 + 1/2) per second.
    left, right, t = result.log["left.speed"], result.log["right.speed"], result.log.t
    assert left + 2.0 * right == pytest.approx(100.0)
    assert left - right == pytest.approx(100.0 * np.exp(-0.75 * t), abs=0.2)


NUMBERS = ("None", "One", "Two", "Three", "Four", "All")


def test_the_readme_names_the_goals_that_the_verdict_misses():
    page = (DOCS / "calibration.md").read_text(encoding="utf-8").partition("### Goals")[2]
    found = {float(row[2].split(" %")[0]): row[3] for row in table_rows(page.partition("###")[0])}
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("about its own error")[2]
    named = {float(value) for value in re.findall(r"([\d.]+) %", text.partition("Calibration")[0])}
    assert found.keys() <= named
    missed = Counter(found.values())["**no**"]
    assert f"{NUMBERS[missed]} of five goals are missed" in " ".join(text.split())


def test_the_example_of_the_python_page_runs(tmp_path):
    for name, text in files_of(DOCS / "python.md").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "study.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("0.01 s: ")
    assert "(401,) N RUNNING -> STOPPED: finished" in lines
    assert any(line.startswith("running: ") for line in lines)
    assert lines[-1].endswith(" steps")
    assert (tmp_path / "runs" / "reference" / "session.mcap").exists()


def test_the_python_page_names_what_there_is():
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    assert {f"hilrt.{name}" for name in hilrt.__all__} - set(re.findall(r"hilrt\.\w+", text)) <= {
        f"hilrt.{name}" for name in ("InputPolynomial", "Port", "Sample", "Result", "RunResult")
    }
    assert all(hasattr(hilrt, name) for name in re.findall(r"\bhilrt\.([A-Za-z_]+)\(", text))
    rows = "".join(re.findall(r"^\| `RunOptions` \|.*?\n\n", text, flags=re.M | re.S))
    assert {field.name for field in fields(RunOptions)} <= set(re.findall(r"`(\w+)`", rows))
    public = {name for name in dir(LiveSession) if not name.startswith("_")} - {"file", "start"}
    assert public <= set(re.findall(r"`session\.(\w+)", text))


def test_the_reference_has_every_public_name():
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    assert set(hilrt.__all__) <= set(re.findall(r"auto(?:class|function):: (\w+)$", text, re.M))


@pytest.mark.parametrize("name", ["first.toml", "remote.toml", "bench.toml"])
def test_own_sessions_have_no_errors(own_bench, name):
    problems = check_file(own_bench / name)
    assert [str(problem) for problem in problems if problem.level == "error"] == []


def test_the_session_of_seldom_used_keys_lacks_its_files_alone(tmp_path):
    path = tmp_path / "seldom.toml"
    path.write_text(files_of(DOCS / "session.md")["seldom.toml"], encoding="utf-8")
    errors = [str(problem) for problem in check_file(path) if problem.level == "error"]
    assert len(errors) == 3
    assert all(re.search(r"no such file|No such file", text) for text in errors)


def test_every_key_has_an_example():
    """In the pages' snippets, in a session of `bench_configs`, or in the calibration's."""
    blocks = [block for language in ("toml", "python") for _, block in snippets(language)]
    files = [*(ROOT / "bench_configs").glob("*.toml"), *(ROOT / "tools").rglob("*.py")]
    text = "\n".join(blocks + [path.read_text("utf-8") for path in files])
    keys = (ROOT / "tests" / "data" / "features.txt").read_text("utf-8").splitlines()
    names = {re.split(r"[. ]", key.replace("[]", ""))[-1] for key in keys if key.startswith("key ")}
    used = set(re.findall(r"\b(\w+)[\"']?(?:\s*[=:]|\]|\.)", text))
    assert names - used - {"*"} == set()


def snippets(language):
    return [
        (f"{page.name} line {line}", text)
        for page in PAGES
        for kind, line, text in blocks_of(page)
        if kind == language
    ]


def commands_of(page):
    """Commands in the blocks of a page: words, without comments, pipes and what is optional."""
    for kind, line, text in blocks_of(page):
        for command in text.replace("\\\n", " ").splitlines() if not kind else ():
            command = re.sub(r"[\[\]]|(\s#|[>|&]).*|^\s*\$ ", "", command)
            if re.match(r"(hilrt|make|pip|python) ", command):
                yield f"{page.name} line {line}: {command}", shlex.split(command)


def test_every_command_in_a_block_is_complete_and_right():
    """Commands of hilrt are parsed as a shell would hand them over, modules and targets found."""
    found = [each for page in PAGES for each in commands_of(page)]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)
    assert len(found) > 60
    for said, (program, *words) in found:
        if program == "hilrt":
            command = typer.main.get_command(cli.app)
            while hasattr(command, "commands"):
                name, *words = words
                command = command.commands[name]
            command.make_context(name, words)
        elif program == "make":
            assert words[0] in targets, said
        elif program == "python" and words[0] == "-m":
            assert importlib.util.find_spec(words[1]), said
        elif program == "python":
            assert any(words[0] in files_of(page) for page in PAGES), said


def test_every_toml_snippet_is_toml():
    tables = [tomllib.loads(block) for _, block in snippets("toml")]
    assert len(tables) > 10
    assert all(tables)


def test_every_key_of_a_session_in_a_snippet_exists(tmp_path):
    path, tried = tmp_path / "snippet.toml", 0
    for name, block in snippets("toml"):
        tables = tomllib.loads(block)
        if not set(tables) <= set(config.Session.__struct_fields__):
            continue  # part of a table, or of another kind of file
        path.write_text(block, encoding="utf-8")
        subsystems = tables.get("subsystems", {})
        lacking = [each for each, table in subsystems.items() if "adapter" not in table]
        unknown = []  # of the adapter that fits best, where the snippet names none
        for adapter in registry.names() if lacking else [""]:
            overrides = [f"subsystems.{each}.adapter={adapter}" for each in lacking]
            problems = read_session(path, overrides).problems
            unknown.append([p for p in problems if re.search(r"unknown key|is not a key", str(p))])
        assert min(unknown, key=len) == [], name
        tried += 1
    assert tried > 30


def test_no_toml_snippet_listens_where_the_check_would_refuse_it():
    masters = {
        name: tomllib.loads(block).get("master", {})
        for name, block in snippets("toml")
        if "listen" in block
    }
    assert masters
    for name, master in masters.items():
        local = is_local(master.get("listen", "tcp://127.0.0.1:*"))
        assert local or "keys" in master or master.get("insecure"), name


def test_the_curve_options_of_the_protocol_page_are_what_a_peer_sets():
    text = (DOCS / "protocol.md").read_text(encoding="utf-8")
    options = dict(re.findall(r"^\| `ZMQ_CURVE_(\w+)` \| the key in `([\w.]+)`", text, flags=re.M))
    assert options == {
        "SERVERKEY": "master.pub",
        "PUBLICKEY": "vehicle.pub",
        "SECRETKEY": "vehicle.key",
    }


def test_every_python_snippet_compiles_and_names_what_exists():
    found = snippets("python")
    assert len(found) > 30
    for name, block in found:
        tree = compile(block, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("hilrt"):
                module = importlib.import_module(node.module)
                assert [each.name for each in node.names if not hasattr(module, each.name)] == []
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "hilrt":
                assert hasattr(hilrt, node.attr), f"{name}: hilrt.{node.attr}"


#: What is neither code nor a command: drawings, equations, results, and settings of other programs.
OTHERS = {"text", "yaml", "dbc", "{eval-rst}", "{toctree}"}


def test_every_block_is_of_a_kind_that_a_test_reads():
    for page in PAGES:
        for kind, line, text in blocks_of(page):
            where = f"{page.name} line {line}"
            assert kind in {"", "python", "toml", *OTHERS}, where
            assert kind or not re.search(r"^(await|import|from|\[\[?\w)", text, re.M), where
