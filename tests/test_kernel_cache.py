"""Kernels of one state of the sources are not taken for those of another."""

import importlib
import re
from pathlib import Path

import pytest

import hilrt
from hilrt import kernel_cache
from hilrt.kernel_cache import kernel_folder

KERNEL = "from hilrt.compiled import compiled\n"


@pytest.fixture
def package(tmp_path):
    """`a` calls `b`, which calls `c`; `d` has nothing to do with them, and `e` has no kernels."""
    package = tmp_path / "package"
    (package / "part").mkdir(parents=True)
    (package / "a.py").write_text(KERNEL + "from hilrt.part import (\n    b as other,\n)\n")
    (package / "part" / "b.py").write_text(KERNEL + "from hilrt.c import double\n")
    (package / "c.py").write_text(KERNEL + "from hilrt.e import nothing\n")
    (package / "d.py").write_text(KERNEL)
    (package / "e.py").write_text("")
    yield package
    kernel_folder.cache_clear()


def folders(package):
    kernel_folder.cache_clear()
    return {name: kernel_folder(package / f"{name}.py", package) for name in ("a", "c", "d")}


@pytest.mark.parametrize(
    ("changed", "new"), [("a", "a"), ("part/b", "a"), ("c", "ac"), ("d", "d"), ("e", "")]
)
def test_what_a_kernel_may_call_counts(changed, new, package):
    before = folders(package)
    assert all(folder.is_dir() for folder in before.values())
    assert folders(package) == before
    source = package / f"{changed}.py"
    source.write_text(source.read_text() + "# changed\n")
    after = folders(package)
    assert {name for name in after if after[name] != before[name]} == set(new)
    for name in new:
        assert after[name].is_dir()
        assert not before[name].exists(), "nobody will ask for it again"


def test_who_does_not_say_it_is_refused(package):
    with pytest.raises(ValueError, match=r"e\.py: something of it is compiled; say so"):
        kernel_folder(package / "e.py", package)


def test_a_package_that_cannot_be_written(package, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(kernel_cache.os, "access", lambda path, _: "caches" in str(path))
    folder = kernel_folder(package / "a.py", package)
    assert folder.is_dir()
    assert folder.is_relative_to(tmp_path / "caches" / "hilrt")


def kernels():
    """Every function of the package that is compiled."""
    package = Path(hilrt.__file__).parent
    for source in package.rglob("*.py"):
        if "from hilrt.compiled import" in source.read_text():
            name = ".".join(("hilrt", *source.relative_to(package).with_suffix("").parts))
            for value in vars(importlib.import_module(name)).values():
                if hasattr(value, "py_func"):
                    yield value.py_func


def test_constants_of_kernels_stand_where_a_change_is_noticed():
    package = Path(hilrt.__file__).parent
    found = 0
    for function in kernels():
        sources = kernel_cache._sources(Path(function.__code__.co_filename), package)
        texts = [source.read_text() for source in sources]
        for name in function.__code__.co_names:
            if isinstance(function.__globals__.get(name), (int, float)):
                assigned = re.compile(rf"^(\w+, )*{name}\b.*=", re.MULTILINE)
                assert any(assigned.search(text) for text in texts), (function, name)
                found += 1
    assert found > 10
