"""A folder for what lives as long as a session."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hilrt.errors import ConfigError


def make_temporary_folder(prefix: str) -> Path:
    """New folder that only this account can use; `ConfigError` if there can be none."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise ConfigError(
            f"no temporary folder can be made ({error.strerror}); "
            "set TMPDIR to a folder that can be written"
        ) from None
