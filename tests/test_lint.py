"""The hooks of git run the same tools as `make lint`."""

import re
from pathlib import Path

import yaml

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
