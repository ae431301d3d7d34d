"""The token that readers of the page, the metrics and the bridge must give.

Each account has one, in a file that only the account can read. It stays the same from session to
session, so that an open page shows the next session and a scraper needs no new configuration. It
does not allow commands.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import secrets
import socket
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hilrt.config.session_tables import MonitorTable
from hilrt.errors import ConfigError
from hilrt.peers.addresses import bind, parse_address, why_not_bound

#: Environment variable with a token that this process uses instead.
READ_TOKEN_VARIABLE = "HILRT_READ_TOKEN"
#: Name of the token's parameter in a URL.
PARAMETER = "token"
BEARER = "bearer "
_LONGEST = 200


@functools.cache
def read_token() -> str:
    """Token from the environment, else the account's, else one for this process only."""
    given = os.environ.get(READ_TOKEN_VARIABLE, "").strip()
    if given:
        return given
    made = secrets.token_urlsafe(18)
    with contextlib.suppress(OSError, ValueError):
        return _kept(token_file(), made)
    return made


def token_file() -> Path:
    """Path of the account's token file; `ValueError` for an account without a home."""
    if os.name == "nt":
        parent = Path(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~"))
    else:
        parent = Path(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"))
    if not parent.is_absolute():
        raise ValueError("no private folder of this account was found")
    return parent / "hilrt" / "read_token"


def with_token(url: str, token: str) -> str:
    """Address with the token that opens the page served at `url`."""
    return f"{url}/?{PARAMETER}={quote(token, safe='')}"


def given_token(parameters: Sequence[str], authorization: str) -> str:
    """Token of a request, from its query parameters or its authorization header; else ""."""
    if authorization.lower().startswith(BEARER):
        return authorization[len(BEARER) :].strip()
    return parameters[-1] if parameters else ""


def keep_out_of_logs(token: str) -> None:
    """Replace the token in everything that this process logs from now on.

    Request addresses contain it, and tornado logs these for errors and for statuses of 400 and
    above.
    """
    make = logging.getLogRecordFactory()
    written = re.compile(rf"{re.escape(token)}|(?<={PARAMETER}=)[^&\s'\"]+")

    def made(*args: Any, **options: Any) -> logging.LogRecord:
        record = make(*args, **options)
        with contextlib.suppress(Exception):  # `logging` itself reports a wrong format
            record.msg, record.args = written.sub("…", record.getMessage()), ()
        return record

    logging.setLogRecordFactory(made)


def _kept(file: Path, made: str) -> str:
    """Read the file's token; write `made` if the file is empty or others can read it.

    If several processes write at once, one succeeds and the others read its token.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        found = file.lstat()
        known = os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o077)
        if known or not stat.S_ISREG(found.st_mode) or not found.st_size:
            file.unlink()
    handle, name = tempfile.mkstemp(dir=file.parent)  # 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as new:
            new.write(made)
        with contextlib.suppress(FileExistsError):
            os.link(name, file)
    finally:
        os.unlink(name)
    text = file.read_text(encoding="ascii")[:_LONGEST].strip()
    if not text or any(c.isspace() or not c.isprintable() for c in text):
        raise ValueError(f"{file} contains no token")
    return text


# The ports of a session file for watchers are bound, or refused as taken, before anything starts.
# Otherwise operators could watch and command a session other than the one that they started.

#: Connections that wait until the page's process takes them.
BACKLOG = 128


def bind_page(address: str) -> list[socket.socket]:
    """Sockets that listen at the page's address, one for each network address it resolves to.

    `ConfigError` if it is taken, or not an address of this machine.
    """
    try:
        return listen_at(*parse_address(address))
    except OSError as error:
        raise _refusal("page", address, error) from None


def listen_at(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at a host and port; `OSError` if these are taken."""
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, _, _, where in dict.fromkeys(found):
            bound.append(bind(family, kind, where))
            bound[-1].listen(BACKLOG)
    except OSError:
        close(bound)
        raise
    return bound


def refuse_taken(table: MonitorTable) -> None:
    """Raise `ConfigError` if a port that another process will bind is already taken.

    Addresses with names of network interfaces are left to that process.
    """
    wanted = {"listen": table.listen, "commands": table.commands, "foxglove": table.foxglove}
    for key, address in wanted.items():
        error = why_not_bound(address or "")
        if error is not None:
            raise _refusal(key, str(address), error)


def close(sockets: list[socket.socket]) -> None:
    """Close the sockets, which frees the port."""
    for one in sockets:
        with contextlib.suppress(OSError):
            one.close()


def _refusal(key: str, address: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"[monitor] {key} = {address!r}: {(error.strerror or str(error)).lower()}; end the "
        "program that uses it (another session?), or give another address"
        f": --set monitor.{key}=…"
    )
