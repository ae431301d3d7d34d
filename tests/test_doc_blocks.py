"""Python blocks of the documentation run; the few that cannot are checked otherwise, or say why."""

import ast
import asyncio
import inspect
import re
import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt

import hilrt
from hilrt.record.messages import Begin, RecordEnd, Signal, Topic
from hilrt.record.recording import Recording
from hilrt.sequences.bench import SequenceBench
from tests.test_docs import DOCS, PAGES, ROOT, files_of

HERE, OWN = "test_doc_blocks.py", "adapters/test_own_adapter.py"
STUDIES = "studies/test_sweep.py::test_the_page_s_loop_pool_and_dask_print_the_same"
#: Blocks that other tests run: page, first words, and that test.
ELSEWHERE = (
    ("README.md", "# clutch.py", "test_docs.py::test_the_example_of_the_readme_runs"),
    ("adapters.md", '"""udp_echo.py', f"{OWN}::test_the_adapter_of_the_page_answers_over_udp"),
    ("own_bench.md", '"""models.py', "test_docs.py::test_own_models_run"),
    ("own_bench.md", '"""look.py', f"{HERE}::test_a_first_look_at_a_log"),
    ("own_bench.md", '"""udp_probe.py', f"{HERE}::test_the_probe_hears_its_device"),
    ("own_bench.md", '"""sender.py', f"{HERE}::test_the_probe_hears_its_device"),
    ("python.md", "# spring.py", "test_docs.py::test_the_example_of_the_python_page_runs"),
    ("python.md", "# study.py", "test_docs.py::test_the_example_of_the_python_page_runs"),
    ("studies.md", "# a loop", STUDIES),
    ("studies.md", "# a pool", STUDIES),
    ("studies.md", "# Dask", STUDIES),
)
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


def python_blocks(page):
    """Python blocks of a page: line, text, and why a block does not run here; else empty."""
    tokens = MarkdownIt().parse(page.read_text("utf-8"))
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "fence" and token.info == "python":
            mark = NOT_RUN.match(before.content) if before and before.type == "html_block" else None
            yield token.map[0] + 1, token.content, mark[1] if mark else ""


def runner_of(page, text):
    """Test of another place that runs a block; empty if this one must."""
    for name, first, test in ELSEWHERE:
        if page.name == name and text.startswith(first):
            return test
    return ""


RUNNING = [
    page
    for page in PAGES
    if any(not why and not runner_of(page, text) for _, text, why in python_blocks(page))
]
SIGNALS = [Signal("engine.torque", "N*m"), Signal("engine.pedal:sent", "%")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the sessions that the blocks name, and a log; the working directory."""
    shutil.copytree(ROOT / "bench_configs", tmp_path / "bench_configs")
    for name in ("quarter_car.toml", "quarter_car.py"):
        shutil.copy(DOCS / "examples" / name, tmp_path)
    run = tmp_path / "runs" / "engine-in-the-loop-20260528-202640"
    recording = Recording(Begin(str(run), "s", 10**18, [Topic("outputs", SIGNALS)], [], {}))
    recording.batch(0, np.array([0, 1_000_000]), np.array([[100.0, 20.0], [101.0, 21.0]]))
    recording.finish(RecordEnd(b"{}", 2, 0))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "bench_configs")
    return tmp_path


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_blocks_run(page, folder):
    """In the order of the page, in one namespace."""
    names, defined = {"__name__": "__main__"}, set()
    for line, text, why in python_blocks(page):
        if not why and not runner_of(page, text):
            code = compile(text, f"{page.name} line {line}", "exec")
            exec(code, names)
            defined |= set(code.co_names) & names.keys()
    assert defined  # the blocks did run, in this namespace


def test_blocks_that_do_not_run_here_say_why_or_have_a_test():
    blocks = [(page, *block) for page in PAGES for block in python_blocks(page)]
    assert len(blocks) > 30
    told = [why for *_, why in blocks if why]
    assert len(told) == 8  # each reason is on its page
    assert sum(why == "a part of a sequence's run" for why in told) == 4
    assert sum(runner_of(page, text) != "" for page, _, text, _ in blocks) == len(ELSEWHERE)
    for *_, test in ELSEWHERE:
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / "tests" / path).read_text("utf-8"), test


def test_blocks_of_a_sequence_call_its_bench_rightly():
    """Names and arguments, also of the blocks that are only a part of a sequence."""
    calls = 0
    for page in PAGES:
        for line, text, _ in python_blocks(page):
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree = compile(text, f"{page.name} line {line}", "exec", flags)
            for node in ast.walk(tree):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                    continue
                if getattr(node.func.value, "id", "") != "bench" or node.func.attr == "run":
                    continue
                method = getattr(SequenceBench, node.func.attr)
                keys = {key.arg: key.value for key in node.keywords}
                inspect.signature(method).bind(None, *node.args, **keys)
                calls += 1
    assert calls > 12


def test_a_first_look_at_a_log(folder, capsys):
    files = files_of(DOCS / "own_bench.md")
    for name in ("models.py", "first.toml"):
        (folder / name).write_text(files[name], encoding="utf-8")
    hilrt.run_session("first.toml", options=hilrt.RunOptions(out="runs"))
    exec(compile(files["look.py"], "look.py", "exec"), {})
    first, *events = capsys.readouterr().out.splitlines()
    assert float(first.split()[0]) == pytest.approx(186.65, abs=0.005)  # as the page says
    assert any("RUNNING" in line for line in events)


async def test_the_probe_hears_its_device(tmp_path):
    """The stand-in sends a sine of 5 degC about 20 degC."""
    files, names = files_of(DOCS / "own_bench.md"), {}
    exec(compile(files["udp_probe.py"], "udp_probe.py", "exec"), names)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sender = files["sender.py"].replace("47001", str(port))
    assert sender != files["sender.py"]
    link = names["UdpProbeLink"]("probe", names["Options"](adapter="udp_probe", port=port), Path())
    await link.open()
    device = await asyncio.create_subprocess_exec(sys.executable, "-c", sender)
    try:
        sample = await link.initialize(0.0, np.zeros(0))
    finally:
        device.kill()
        await device.wait()
        await link.close()
    assert 15.0 <= sample.y[0] <= 25.0
