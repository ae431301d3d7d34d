"""Errors name the page that explains them, and every page that is named exists."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest
import typer.main

from hilrt import errors
from hilrt.bench.read_bench import PortsError
from hilrt.cli import main as cli
from hilrt.cli.common import ERRORS, KEYS, PAGES, SYMPTOMS, page_of
from hilrt.config.schema import session_schema
from hilrt.documentation import TITLES, in_documentation
from hilrt.errors import ConfigError, HilrtError, NoAnswer, RecordError, SolverCannot
from hilrt.fmu.instance import FmuError
from hilrt.session.benches import CutShort

ROOT = Path(__file__).parents[2]


def test_every_page_exists_and_every_command_has_one():
    assert [
        page for page in {*PAGES, *ERRORS.values(), SYMPTOMS} if not (ROOT / page).exists()
    ] == []
    named = {name for names in PAGES.values() for name in names}
    assert named == set(typer.main.get_command(cli.app).commands)


def test_pages_are_named_by_their_titles():
    heads = {page: (ROOT / page).read_text("utf-8").partition("\n")[0] for page in TITLES}
    assert heads == {page: f"# {title}" for page, title in TITLES.items()}
    assert {*PAGES, *ERRORS.values(), SYMPTOMS} <= set(TITLES)


@pytest.mark.parametrize("folder", ["hilrt", "adapters"])
def test_no_message_names_a_file_of_the_documentation(folder):
    """Who has installed a wheel, or reads the site, has no such file."""
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in (ROOT / folder).rglob("*.py")
        for text in strings(ast.parse(path.read_text("utf-8")))
        if re.search(r"docs/[\w/]+\.md", text) and text not in TITLES
    ]
    assert found == []


def strings(tree):
    """The strings of a module, except docstrings."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            said = isinstance(child, ast.Constant) and isinstance(child.value, str)
            if said and not isinstance(node, ast.Expr):
                yield child.value


def test_the_schema_names_pages_by_their_titles():
    text = json.dumps(session_schema())
    assert "docs/" not in text
    assert json.dumps(in_documentation("docs/stimuli.md"))[1:-1] in text


def test_the_kind_of_an_error_goes_before_the_command():
    assert page_of(NoAnswer("engine", "silent"), ["run", "a.toml"]) == SYMPTOMS
    assert page_of(SolverCannot("no state"), ["run", "a.toml"]) == "docs/own_bench.md"
    assert page_of(RecordError("no log"), ["sweep", "a.mcap"]) == "docs/logs.md"
    assert page_of(ConfigError("wrong"), ["can", "sniff"]) == "docs/can.md"
    assert page_of(ConfigError("wrong"), ["--unknown"]) == SYMPTOMS
    kinds = {k for k in vars(errors).values() if isinstance(k, type) and k.__base__ is HilrtError}
    assert kinds == {*ERRORS, ConfigError}


def test_every_class_of_error_has_a_page():
    """Those of the tree, and those that other rooms derive from it."""
    assert {CutShort, FmuError, PortsError} <= derived(HilrtError)
    for kind in derived(HilrtError):
        for command in PAGES.values():
            assert (ROOT / page_of(kind.__new__(kind), [command[0]])).exists()
    assert page_of(FmuError("no binary"), ["run", "a.toml"]) == "docs/fmu.md"


def derived(kind):
    """All subclasses of a class."""
    return {kind, *(one for below in kind.__subclasses__() for one in derived(below))}


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        (["run", "missing.toml"], KEYS),
        (["check", "wrong.toml"], KEYS),
        (["report", "missing"], "docs/logs.md"),
        (["fmu", "info", "missing.fmu"], "docs/fmu.md"),
        (["can", "send", "--bus", "interface", "1#00"], "docs/can.md"),
        (["new", "a.toml", "--model", "missing:Class"], "docs/own_bench.md"),
        (["new", "a.toml", "--database", "missing.dbc"], "docs/can.md"),
    ],
)
def test_an_error_ends_with_its_page(arguments, page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.toml").write_text("[session]\ndurration = 1.0\n", "utf-8")
    monkeypatch.setattr(sys, "argv", ["hilrt", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code in (2, 3)
    assert capsys.readouterr().err.strip().endswith(f"see {in_documentation(page)}")
