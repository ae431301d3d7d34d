"""Kernels of one state of the sources are not taken for those of another."""

import pytest

from hilrt import kernel_cache
from hilrt.kernel_cache import kernel_folder

KERNEL = "from hilrt.compiled import compiled\n"


@pytest.fixture
def package(tmp_path):
    package = tmp_path / "package"
    (package / "part").mkdir(parents=True)
    (package / "a.py").write_text(KERNEL + "from package.part.b import double\n")
    (package / "part" / "b.py").write_text(KERNEL + "def double(x): return 2 * x\n")
    (package / "other.py").write_text("print()\n")
    return package


def test_what_one_file_calls_from_another_counts(package):
    before = kernel_folder(package)
    assert before.is_dir()
    assert kernel_folder(package) == before
    (package / "part" / "b.py").write_text(KERNEL + "def double(x): return x + x\n")
    after = kernel_folder(package)
    assert after != before
    assert after.is_dir()
    assert not before.exists(), "nobody will ask for them again"


def test_files_without_kernels_do_not_count(package):
    before = kernel_folder(package)
    (package / "other.py").write_text("print(1)\n")
    assert kernel_folder(package) == before


def test_a_package_that_cannot_be_written(package, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(kernel_cache.os, "access", lambda path, _: "caches" in str(path))
    folder = kernel_folder(package)
    assert folder.is_dir()
    assert folder.is_relative_to(tmp_path / "caches" / "hilrt")
