"""The hooks of git run the same tools as `make lint`."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent


def test_the_hooks_run_what_make_lint_runs():
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    tools = [line.strip().removeprefix("$(BIN)/").split(" . ")[0] for line in recipe.splitlines()]
    lint = {tool.removesuffix(" .") for tool in tools}
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    hooks = {
        hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude")
        for hook in repository["hooks"]
    }
    assert hooks == lint


def test_libraries_have_lower_bounds_alone_and_are_pinned_for_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [Requirement(text) for text in chain(project["dependencies"], *extras)]
    libraries = [one for one in wanted if one.name != project["name"]]
    assert len(libraries) > 30
    for library in libraries:
        assert [clause.operator for clause in library.specifier] == [">="], str(library)
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    for pin in pins:
        assert [clause.operator for clause in pin.specifier] == ["=="], str(pin)
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    for library in libraries:
        version = pinned[canonicalize_name(library.name)]
        assert library.specifier.contains(version), f"{library}: pinned at {version}"
