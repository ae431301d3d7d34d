import subprocess
import sys
from pathlib import Path

import pytest

from hilrt.session import assembly
from hilrt.session.assembly import COMPILES, say_when_compiling

LOOK = """
import sys
from pathlib import Path
from hilrt import load_session, run_session
from hilrt.session.run import RunOptions
from hilrt.session.running import load_numerics

def compiled():
    return {
        key: len(value.signatures)
        for name, module in sys.modules.items()
        if name.startswith("hilrt")
        for key, value in vars(module).items()
        if hasattr(value, "py_func") and value.py_func.__module__ == name
    }

load_numerics()
before = compiled()
identify = ['subsystems.mass1.jacobian={source="identify"}']
feedthrough = ['bonds.coupling.correction={method="feedthrough"}']
spawn = '["hilrt", "solver", "hilrt.models.two_mass:Mass2", "--param", "k=1000.0"]'
remote = ['subsystems.mass2={adapter="zeromq", spawn=' + spawn + '}']
for name, changes in (
    ("two_mass", []),
    ("two_mass", remote),
    ("two_mass", [*remote, "session.pace=realtime"]),
    ("hydraulic_crane", []),
    ("two_mass_model", []),
    ("two_mass_model", identify),
    ("two_mass_model", feedthrough),
):
    file = load_session(
        Path("bench_configs") / f"{name}.toml", ["session.duration=0.05", *changes]
    )
    assert run_session(file, options=RunOptions(out=Path(sys.argv[1]))).exit_status == 0
print(*[key for key, count in compiled().items() if count != before[key]])
"""


def test_after_loading_nothing_is_left_to_compile(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr in ("", f"{COMPILES}\n")
    assert not done.stdout.split()


@pytest.mark.parametrize(("kept", "said"), [(True, ""), (False, f"{COMPILES}\n")])
def test_a_line_says_that_a_first_start_compiles_and_nothing_where_code_is_stored(
    kept: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(assembly, "is_kept", lambda *_: kept)
    say_when_compiling.__wrapped__()
    assert capsys.readouterr() == ("", said)
