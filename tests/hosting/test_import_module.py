import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hilrt.errors import ConfigError
from hilrt.hosting.import_module import import_module

pytestmark = pytest.mark.usefixtures("own_modules")


def write(folder, name, text):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_file_of_the_folder_comes_before_what_is_installed_and_shadows_nothing(tmp_path):
    write(tmp_path, "numpy.py", "import numpy\nzeros = numpy.zeros(2)\nmine = True\n")
    write(tmp_path, "graphlib.py", "mine = True\n")  # of the standard library, not yet imported
    module = import_module("numpy", [tmp_path])
    assert module.mine
    assert isinstance(module.zeros, np.ndarray)
    assert __import__("numpy") is np
    assert import_module("graphlib", [tmp_path]).mine
    assert hasattr(__import__("graphlib"), "TopologicalSorter")
    assert str(tmp_path) not in sys.path[:-1]


def test_what_is_not_in_a_folder_is_the_installed_one(tmp_path):
    assert import_module("hilrt.models.two_mass", [tmp_path]).__name__ == "hilrt.models.two_mass"
    write(tmp_path, "hilrt/models/two_mass.py", "")  # a checkout beside the session
    assert hasattr(import_module("hilrt.models.two_mass", [tmp_path]), "Mass1")


def test_a_module_imports_its_neighbours_and_is_the_same_for_them(tmp_path):
    write(tmp_path, "my_base.py", "class Base: pass\n")
    write(tmp_path, "my_load.py", "from my_base import Base\nclass Load(Base): pass\n")
    load, base = import_module("my_load", [tmp_path]), import_module("my_base", [tmp_path])
    assert issubclass(load.Load, base.Base)
    assert sys.modules["my_load"] is load


def test_packages_with_and_without_init(tmp_path):
    write(tmp_path, "with_init/__init__.py", "")
    write(tmp_path, "with_init/models.py", "from . import numbers\nx = numbers.x\n")
    write(tmp_path, "with_init/numbers.py", "x = 1\n")
    write(tmp_path, "without_init/models.py", "x = 2\n")
    assert import_module("with_init.models", [tmp_path]).x == 1
    assert import_module("without_init.models", [tmp_path]).x == 2


def test_folders_do_not_see_each_others_modules(tmp_path):
    for number, name in enumerate(("one", "two")):
        write(tmp_path / name, "my_load.py", "from my_data import x\n")
        write(tmp_path / name, "my_data.py", f"x = {number}\n")
    for number, name in [(0, "one"), (1, "two"), (0, "one")]:
        assert import_module("my_load", [tmp_path / name]).x == number


def test_the_first_folder_wins(tmp_path):
    write(tmp_path, "my_load.py", "x = 0\n")
    write(tmp_path, "models/my_load.py", "x = 1\n")
    assert import_module("my_load", [tmp_path / "models", tmp_path]).x == 1


def test_a_file_that_has_changed_is_read_again(tmp_path):
    file = write(tmp_path, "my_load.py", "x = 1\n")
    first = import_module("my_load", [tmp_path])
    assert import_module("my_load", [tmp_path]) is first
    stat = file.stat()
    file.write_text("x = 2\n")  # of the same size, in the same second
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert import_module("my_load", [tmp_path]).x == 2


def test_one_that_fails_leaves_nothing_behind(tmp_path):
    write(tmp_path, "my_load.py", "1 / 0\n")
    for _ in range(2):
        with pytest.raises(ConfigError, match="ZeroDivisionError"):
            import_module("my_load", [tmp_path])
    assert "my_load" not in sys.modules


def test_one_that_is_missing_is_never_suggested(tmp_path):
    with pytest.raises(ConfigError, match=r"no module 'my_load' in .*; there is none") as wrong:
        import_module("my_load", [tmp_path])
    assert str(tmp_path) in str(wrong.value)
    write(tmp_path, "my_laod.py", "")
    with pytest.raises(ConfigError, match=r"did you mean 'my_laod'\?"):
        import_module("my_load", [tmp_path])


def test_a_process_of_a_session_does_not_take_modules_of_its_folder_first(tmp_path):
    from hilrt.config.read_values import executable

    write(tmp_path, "numpy.py", "raise RuntimeError('taken')\n")
    write(tmp_path, "my_load.py", "x = 1\n")
    command = executable("load", ["hilrt", "solver", "my_load:Load", "--connect", "tcp://[::1]:1"])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _sources()))}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "module 'my_load' has no solver 'Load'" in done.stderr
    assert done.returncode == 2


def _sources():
    import hilrt
    import hilrt_adapters

    return [Path(package.__file__).parent.parent for package in (hilrt, hilrt_adapters)]
