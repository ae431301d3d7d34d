"""Cases on Dask's workers: one task at a time for each worker, and no case lost with a worker.

Dask starts the workers, transfers tasks and results, and restarts workers that die. This module
assigns the cases to workers, so that it knows the cases of a worker that died: several cases are
run again one by one, and a case whose workers died twice fails with the reason.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hilrt.errors import ConfigError, HilrtError
from hilrt.session import placer
from hilrt.session.placer import LOCAL, refuse_open_cluster
from hilrt.studies.run_cases import (
    TASK_S,
    Row,
    StudyCase,
    SweptSession,
    lost_row,
    prepare_worker,
    run_cases,
)

if TYPE_CHECKING:
    from distributed import Client, Future

#: Number of times that a case is run alone before it fails.
MOST_TRIES: Final = 2
#: Maximum cases of a task.
LARGEST_TASK: Final = 1000
#: Maximum time to wait for a result before the workers are checked again, s.
LOOK_S: Final = 1.0
#: Time without any worker after which a sweep ends, s.
NO_WORKER_S: Final = 120.0


class Running(NamedTuple):
    """A running task: its cases (empty if it prepares its worker), and the time of its start."""

    future: Future
    cases: list[StudyCase]
    began: float


@contextlib.contextmanager
def connected(cluster: str | None, count: int | None) -> Iterator[Client]:
    """Client of a Dask cluster, or of workers on this machine that end with the block.

    Parameters
    ----------
    cluster : str, optional
        Address of its scheduler, such as ``tls://node1:8786``, or the path of the scheduler's file;
        default, or ``"local"``: workers on this machine.
    count : int, optional
        Number of single-threaded workers on this machine; default: one per processor.

    Raises
    ------
    ConfigError
        Without Dask, if no cluster responds, for a cluster exposed without TLS, and in a script
        without a guard.
    """
    if cluster is None:
        cluster = LOCAL
    if cluster == LOCAL:
        refuse_unguarded()
    refuse_open_cluster(cluster)
    with placer.connected(cluster, count or len(os.sched_getaffinity(0))) as client:
        yield client


def refuse_unguarded() -> None:
    """Raise `ConfigError` in a script whose workers would repeat this call when importing it."""
    main, line = sys.modules["__main__"], 0
    frame: FrameType | None = sys._getframe()
    path, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    if path is None or (spec is not None and spec.name.endswith("__main__")):
        return  # a notebook, or a package run as a program, which workers do not import
    if path == "<stdin>":
        raise ConfigError(
            "the program was read from the standard input, where worker processes cannot import "
            "it; store it in a file, or run it in a notebook"
        )
    while frame is not None:
        if frame.f_globals is main.__dict__ and frame.f_code.co_name == "<module>":
            line = frame.f_lineno
        frame = frame.f_back
    guards = (
        node
        for node in ast.parse(Path(path).read_bytes()).body
        if isinstance(node, ast.If) and "'__name__'" in ast.dump(node.test)
    )
    if line and not any(guard.lineno <= line <= (guard.end_lineno or 0) for guard in guards):
        raise ConfigError(
            f"{path}, line {line}: the worker processes import this file, and would start the "
            'sweep again; put the call below the line  if __name__ == "__main__":'
        )


class CaseQueue:
    """The cases of a sweep on the workers of a client.

    Parameters
    ----------
    client : Client
    swept : SweptSession
    recycle : int
        Number of cases after which a worker is restarted; 0: never.
    timeout : float, optional
        Time limit of a case, s, after which its worker is ended.

    Attributes
    ----------
    tries : Counter
        For each case, number of times that its worker died while running it alone.
    """

    def __init__(
        self, client: Client, swept: SweptSession, recycle: int, timeout: float | None
    ) -> None:
        self._client, self._swept = client, swept
        self._recycle, self._timeout = recycle, timeout
        self._waiting: deque[StudyCase] = deque()
        self._alone: deque[StudyCase] = deque()
        self._running: dict[str, Running] = {}
        self._served: Counter[str] = Counter()
        self._ready: set[str] = set()
        #: Hosts without compiled code, and the worker that compiles it there, if any.
        self._lacking: dict[str, str] = {}
        self._leaving: set[str] = set()
        self._restarts = ThreadPoolExecutor(1, "hilrt-recycle")
        self._mean_s, self._tasks = TASK_S, 0
        self._last_worker = time.monotonic()
        self.tries: Counter[str] = Counter()

    def run(self, cases: Sequence[StudyCase], take: Callable[[list[Row]], None]) -> None:
        """Run all cases; `take` is called with rows in the order of completion.

        Raises
        ------
        HilrtError
            If there is no worker to run them, or the workers cannot run any.
        """
        self._waiting.extend(cases)
        rows: list[Row] = []
        try:
            while self._waiting or self._alone or self._running:
                addresses = self._client.nthreads()
                self._watch(addresses)
                rows += self._without_worker(addresses)
                self._submit(addresses)
                take(rows)  # overlaps with the workers' computation
                rows = []
                self._wait()
                rows = self._collect()
        finally:
            take(rows)
            for task in self._running.values():
                task.future.cancel()
            self._restarts.shutdown(wait=False, cancel_futures=True)

    def _watch(self, addresses: Sequence[str]) -> None:
        now = time.monotonic()
        if addresses:
            self._last_worker = now
        elif now - self._last_worker > NO_WORKER_S:
            raise HilrtError(
                f"the cluster has had no worker for {NO_WORKER_S:g} s; start some, and run the "
                "sweep again: it continues with the missing cases"
            )

    def _without_worker(self, addresses: Sequence[str]) -> list[Row]:
        """Recover cases of lost workers, and end workers whose case takes too long."""
        lost: list[Row] = []
        for address in [one for one in self._running if one not in addresses]:
            if not self._running[address].future.done():
                task = self._running.pop(address)
                task.future.cancel()
                lost += self._died(task.cases, address, "its worker process died with it")
        if self._timeout is not None:
            now = time.monotonic()
            for address, task in list(self._running.items()):
                if task.cases and now - task.began > self._timeout + TASK_S:
                    task.future.cancel()
                    del self._running[address]
                    self._restart(address)
                    text = f"took more than {self._timeout:g} s (--timeout)"
                    lost += self._died(task.cases, address, text)
        return lost

    def _died(self, cases: list[StudyCase], address: str, reason: str) -> list[Row]:
        host = host_of(address)
        if self._lacking.get(host) == address:
            self._lacking[host] = ""
        if len(cases) > 1:  # one of them is the cause, but it is unknown which
            self._alone.extend(cases)
            return []
        lost = []
        for case in cases:
            self.tries[case.name] += 1
            if self.tries[case.name] < MOST_TRIES:
                self._alone.append(case)
            else:
                lost.append(lost_row(self._swept, case, f"{reason}, {MOST_TRIES} times"))
        return lost

    def _submit(self, addresses: Sequence[str]) -> None:
        for address in addresses:
            if address in self._running or address in self._leaving:
                continue
            host = host_of(address)
            if address in self._ready:
                if cases := self._next_task(address):
                    self._start(address, cases, run_cases, self._swept, cases)
            elif host not in self._lacking:
                self._start(address, [], prepare_worker, False)
            elif not self._lacking[host]:  # compiled code is cached once per machine
                self._lacking[host] = address
                self._start(address, [], prepare_worker, True)

    def _next_task(self, address: str) -> list[StudyCase]:
        if self._alone:
            return [self._alone.popleft()]
        size = min(LARGEST_TASK, int(1.5 * TASK_S / self._mean_s))
        if self._recycle:
            size = min(size, self._recycle - self._served[address])
        size = max(1, size)
        return [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]

    def _start(self, address: str, cases: list[StudyCase], work: Any, *arguments: Any) -> None:
        future = self._client.submit(
            work, *arguments, workers=[address], pure=False, allow_other_workers=False
        )
        self._running[address] = Running(future, cases, time.monotonic())

    def _wait(self) -> None:
        from distributed import wait

        if not self._running:
            time.sleep(0.1)  # no worker is free: one restarts
            return
        futures = [task.future for task in self._running.values()]
        with contextlib.suppress(TimeoutError):
            wait(futures, timeout=LOOK_S, return_when="FIRST_COMPLETED")

    def _collect(self) -> list[Row]:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        rows: list[Row] = []
        for address, task in list(self._running.items()):
            if not task.future.done():
                continue
            del self._running[address]
            try:
                done = task.future.result(timeout=LOOK_S * 30)
            except (KilledWorker, FutureCancelledError, TimeoutError):
                rows += self._died(task.cases, address, "its worker process died with it")
                continue
            except Exception as error:
                raise HilrtError(
                    f"the worker {address} cannot run cases ({type(error).__name__}: {error}); it "
                    "needs hilrt of this version, and the session's models at the same place"
                ) from error
            if not task.cases:
                self._prepared(address, done)
                continue
            rows += done.rows
            self._waiting.extendleft(reversed(task.cases[len(done.rows) :]))
            mean_s = (time.monotonic() - task.began) / len(done.rows)
            self._tasks += 1
            self._mean_s += max(0.3, 1.0 / self._tasks) * (mean_s - self._mean_s)
            self._served[address] += len(done.rows)
            left = self._waiting or self._alone
            if left and self._recycle and self._served[address] >= self._recycle:
                self._restart(address)
        return rows

    def _prepared(self, address: str, loaded: bool) -> None:
        host = host_of(address)
        if loaded:
            self._ready.add(address)
            self._lacking.pop(host, None)
        else:
            self._lacking.setdefault(host, "")

    def _restart(self, address: str) -> None:
        """Restart a worker in the background; it returns under another address."""

        def restart() -> None:
            try:
                self._client.restart_workers([address], timeout="60s", raise_for_error=False)
            except Exception:  # Dask does not restart a worker without a nanny
                self._recycle = 0
                self._leaving.discard(address)

        self._leaving.add(address)
        self._restarts.submit(restart)


def host_of(address: str) -> str:
    """Host of a worker's address, ``tls://127.0.0.1:40123``."""
    return address.rpartition(":")[0]
