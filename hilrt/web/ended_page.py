"""How a session ended, and its report, for pages that are still open when everything has stopped.

The page's process ends with the session, and the report is written after that. A page that has lost
its server asks the same address for ``/ended.json``, then for ``/report.html``, and keeps that: its
link to the report works when nothing answers any more.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hilrt.errors import ConfigError
from hilrt.monitor.own_ports import bind_page, close
from hilrt.monitor.read_token import read_token
from hilrt.peers.addresses import parse_address
from hilrt.web.plain_server import Answer, PlainServer

#: A page asks twice a second: how long the first question is waited for, and, once the report is
#: there, for how long in all a page may take to fetch it, s.
QUIET_S, PATIENCE_S = 1.2, 5.0
POLL_S = 0.02


class EndedPage:
    """Answers at the page's address; a context, at whose end pages have got what they asked for.

    Nothing answers where the address has been taken meanwhile: by the next session.

    Parameters
    ----------
    address : str
        ``[monitor] page``.
    text : str
        How the session ended.

    Attributes
    ----------
    report : Path or None
        Set when it has been written.
    answers : bool
        Whether it has the address, and answers there.
    """

    def __init__(self, address: str, text: str) -> None:
        self.report: Path | None = None
        self._address, self._text = address, text
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._served: set[str] = set()
        self._ready = self.answers = False
        self._server: PlainServer | None = None

    def __enter__(self) -> EndedPage:
        self._began = time.monotonic()
        try:
            self._sockets = bind_page(self._address)
        except ConfigError:
            return self
        where = parse_address(self._address)
        self._server = PlainServer(self._sockets, *where, read_token(), self.answer)
        self.answers = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is None:
            return
        self._ready = True
        if kind is None:
            until = time.monotonic() + PATIENCE_S
            while self._awaited() and time.monotonic() < until:
                time.sleep(POLL_S)
        self._server.stop()
        close(self._sockets)

    def _awaited(self) -> bool:
        """Whether a page may still ask, or has not got what it asked for."""
        with self._lock:
            if not self._asked:
                return time.monotonic() < self._began + QUIET_S
            return not self._asked <= self._served

    def answer(self, path: str) -> Answer | None:
        """``/ended.json`` and ``/report.html``, with ``?page=`` and a word that stands for it."""
        asked = urlsplit(path)
        page = "".join(parse_qs(asked.query).get("page", [""]))[:40]
        if asked.path == "/ended.json":
            return Answer(self._ended(page), "application/json")
        if asked.path == "/report.html" and self._ready and self.report is not None:
            try:
                content = self.report.read_bytes()
            except OSError:
                return None
            with self._lock:
                self._served.add(page)
            return Answer(content)
        return None

    def _ended(self, page: str) -> bytes:
        with self._lock:
            self._asked.add(page)
            if self._ready and self.report is None:  # nothing more to fetch
                self._served.add(page)
            report = self._ready and self.report is not None
            return json.dumps({"text": self._text, "report": report, "over": self._ready}).encode()


def how_it_ended(summary: Mapping[str, Any], fault: str | None) -> str:
    """The end of a session in words, as the page says it."""
    if fault:
        return f"ended: fault, {fault}"
    verdict = summary.get("verdict")
    return "ended: stopped" + (f", {verdict}" if verdict else "")
