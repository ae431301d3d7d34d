import errno
import logging
import os
import shutil

import numba
import numpy as np
import pytest
from numba.core.caching import FunctionCache, IndexDataCacheFile

from hilrt.compilation import code_cache
from hilrt.compilation.code_cache import cache_folder
from hilrt.compilation.compiled import compiled
from hilrt.compilation.numba_inside import TolerantCache

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@pytest.fixture(autouse=True)
def unsaid(monkeypatch):
    monkeypatch.setattr(code_cache, "problems", [])


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A package whose folder cannot be written, and an account without a home."""
    (tmp_path / "package").write_text("")
    monkeypatch.setattr(code_cache, "PACKAGE", tmp_path / "package")
    monkeypatch.setattr(code_cache, "_digest", lambda: "digest")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_without_home_and_package_code_goes_to_a_private_temporary_folder(nowhere, caplog):
    folder = cache_folder.__wrapped__()
    private = nowhere / f"hilrt-{os.getuid()}"
    assert folder.startswith(str(private))
    assert private.stat().st_mode & 0o777 == 0o700
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().count("\n") == 0
    assert "XDG_CACHE_HOME" in record.getMessage()
    assert code_cache.problems == [record.getMessage()]
    assert cache_folder.__wrapped__() == folder  # for the next start, too


def test_a_folder_that_others_can_write_to_is_not_taken(nowhere, caplog):
    private = nowhere / f"hilrt-{os.getuid()}"
    private.mkdir()
    private.chmod(0o777)
    assert cache_folder.__wrapped__() is None
    assert "at every start" in caplog.text
    private.rmdir()
    (nowhere / "of_another").mkdir(mode=0o700)
    private.symlink_to(nowhere / "of_another")
    assert cache_folder.__wrapped__() is None


def test_an_account_without_a_home_gets_no_folder_named_so(nowhere, monkeypatch, caplog):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.chdir(nowhere)
    assert cache_folder.__wrapped__().startswith(str(nowhere / "hilrt-"))
    assert not (nowhere / "~").exists()


def test_code_that_was_installed_is_copied_where_it_can_be_kept(nowhere, monkeypatch):
    name = f"{code_cache.VERSION}-digest"
    brought = nowhere / "package" / "__pycache__" / "compiled" / name / "coupling_1"
    (nowhere / "package").unlink()
    brought.mkdir(parents=True)
    (brought / "limit.nbi").write_bytes(b"index")
    made = code_cache._create
    monkeypatch.setattr(  # as with a file system that is mounted to be read
        code_cache,
        "_create",
        lambda folder, of: None if folder.is_relative_to(nowhere / "package") else made(folder, of),
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere / "cache"))
    folder = cache_folder.__wrapped__()
    assert folder == str(nowhere / "cache" / "hilrt" / "compiled" / name)
    with open(f"{folder}/coupling_1/limit.nbi", "rb") as file:
        assert file.read() == b"index"
    assert not code_cache.problems


def doubled(x):
    return x + x


def test_a_full_disk_stops_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("hilrt.compilation.compiled.cache_folder", lambda: str(tmp_path))

    def full(self, sig, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FunctionCache, "save_overload", full)
    assert compiled(doubled)(2.0) == 4.0
    assert "No space left on device" in caplog.text


def test_a_folder_that_can_no_longer_be_written(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("hilrt.compilation.compiled.cache_folder", lambda: str(tmp_path / "file"))
    assert compiled(doubled)(2.0) == 4.0
    assert "is no longer writable" in caplog.text


def test_code_that_was_cut_off_is_made_anew(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("hilrt.compilation.compiled.cache_folder", lambda: str(tmp_path))
    assert compiled(doubled)(2.0) == 4.0
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".nbi", ".nbc"}
    for file in files:
        kept = file.read_bytes()
        file.write_bytes(kept[: len(kept) // 2])
        assert compiled(doubled)(2.0) == 4.0
        again = compiled(doubled)
        assert isinstance(again._cache, TolerantCache)
        assert again(2.0) == 4.0
        assert again.stats.cache_hits, "what was made again is kept"
    assert len(caplog.records) == 1
    shutil.rmtree(tmp_path)
    assert np.array_equal(compiled(doubled)(np.array([1])[0]), 2)


def test_two_processes_that_keep_code_at_once_do_not_mix_it_up(tmp_path, monkeypatch):
    """The second one reads the index before, and writes its code before the first one does."""
    monkeypatch.setattr("hilrt.compilation.compiled.cache_folder", lambda: str(tmp_path))
    save_data = IndexDataCacheFile._save_data
    first, second = compiled(doubled), compiled(doubled)

    def interrupted(self, name, data):
        with monkeypatch.context() as during:
            during.setattr(IndexDataCacheFile, "_save_data", save_data)
            during.setattr(IndexDataCacheFile, "_load_index", lambda self: {})
            assert second(2) == 4
        save_data(self, name, data)

    with monkeypatch.context() as during:
        during.setattr(IndexDataCacheFile, "_save_data", interrupted)
        assert first(2.5) == 5.0
    for argument in (2, 2.5):
        again = compiled(doubled)
        assert again(argument) == 2 * argument
        assert type(again(argument)) is type(argument)
