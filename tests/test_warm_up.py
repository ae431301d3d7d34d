import subprocess
import sys
from pathlib import Path

#: Kernels that only other kernels call, and `limit` on its own: the step has `limit_or_keep`.
NOT_CALLED = {"limit_channel", "_shift_channel", "_limit"}

LOOK = """
import sys
from pathlib import Path
from hilrt import load_session, run_session
from hilrt.run import RunOptions
from hilrt.warm_up import warm_up
import hilrt.session

def kernels():
    return {
        key: len(value.signatures)
        for name, module in sys.modules.items()
        if name.startswith("hilrt")
        for key, value in vars(module).items()
        if hasattr(value, "py_func") and value.py_func.__module__ == name
    }

warm_up()
before = kernels()
print(*[key for key, count in before.items() if count == 0])
for name in ("two_mass", "hydraulic_crane", "two_mass_model"):
    file = load_session(Path("bench_configs") / f"{name}.toml", ["session.duration=0.05"])
    assert run_session(file, RunOptions(out=Path(sys.argv[1]))).exit_status == 0
print(*[key for key, count in kernels().items() if count != before[key]])
"""


def test_after_the_warm_up_nothing_is_left_to_compile(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert not done.stderr
    not_called, compiled_later = done.stdout.splitlines()
    assert set(not_called.split()) == NOT_CALLED
    assert not compiled_later.split()
