import pytest

from hilrt.errors import ConfigError
from hilrt.fmu.unpacked import UnpackedFolder
from hilrt.session.local_addresses import LocalAddresses


@pytest.mark.parametrize("user", [LocalAddresses, UnpackedFolder])
def test_where_there_can_be_none_the_remedy_is_named(user, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"No such file.*; set TMPDIR"):
        user()
