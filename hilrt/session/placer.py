"""The placer process of a session: places groups' host processes on workers of a Dask cluster.

A Dask task starts a host process on its worker, supervises it and returns how it ended. All other
communication bypasses Dask: the host connects to the master by the usual protocol of peers, with
its key, and the master detects its loss by heartbeats. Each task is bound to one worker, so that
Dask neither steals nor moves it. Dask is imported in this separate process, because its threads
would delay the master's ticks.

The session passes an open file with lines of JSON, `Order` and then one `GroupHost` for each
process. The placer writes ``{"name": …, "pid": …, "text": …}`` for each process that has ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hilrt.config.read_values import executable
from hilrt.documentation import in_documentation
from hilrt.errors import ConfigError
from hilrt.isolation.limited_process import inherited_environment
from hilrt.peers.addresses import is_loopback
from hilrt.peers.keys import is_local
from hilrt.session.child import Child, ForkedProcess
from hilrt.session.spawn import launched

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

#: Name of the workers' resource: the number of host processes that a worker accepts.
LABEL: Final = "hilrt"
#: Used in place of an address: workers on this machine that end with the session.
LOCAL: Final = "local"
#: Interval at which a task checks whether its session has ended, s.
POLL_S = 1.0
#: Time limit for a host process to end after its session, s.
END_S = 5.0
#: Number of last bytes of a host's output that are copied to the session's folder.
TAIL_BYTES = 65536
#: Dask's settings: do not repeat tasks of dead workers, and serve no public dashboard.
SETTINGS: Final = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.admin.tick.limit": "30s",
    # A worker that restarts on a busy host may take longer than Dask's 15 s to return.
    "distributed.deploy.lost-worker-timeout": "600s",
}


class Order(NamedTuple):
    """Cluster, number of hosts, folder in which they run, folder of their output."""

    cluster: str
    hosts: int
    folder: str
    logs: str


class GroupHost(NamedTuple):
    """A host process: the group's name, its command, additions to its environment."""

    name: str
    argv: list[str]
    env: dict[str, str]


class Ended(NamedTuple):
    """End of a host process: its number, its status, the end of its output."""

    pid: int
    status: int
    output: bytes


def refuse_open_cluster(cluster: str, listen: str | None = None) -> None:
    """Raise `ConfigError` for a scheduler that is exposed without TLS, or for no scheduler.

    Also if workers on other machines cannot reach the master's address `listen`.
    """
    if cluster == LOCAL:
        return
    address = cluster
    if os.path.isfile(cluster):
        try:
            address = json.loads(Path(cluster).read_text(encoding="utf-8"))["address"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"--cluster {cluster}: is not a scheduler's file ({error})") from None
    protocol, there, host = address.partition("://")
    if not there or protocol not in ("tcp", "tls"):
        raise ConfigError(
            f"--cluster {cluster}: is not an address of a Dask scheduler; write tls://HOST:PORT, "
            f"the path of its file, or {LOCAL}"
        )
    if is_loopback(host.rpartition(":")[0]):
        return
    if protocol != "tls":
        raise ConfigError(
            f"--cluster {cluster}: workers execute whatever reaches this scheduler; start it and "
            f"its workers with TLS, see {in_documentation('docs/groups.md')}, and give its address "
            "tls://…"
        )
    if listen is not None and is_local(listen):
        raise ConfigError(
            f"--cluster {cluster}: [master] listen = {listen!r}: other machines cannot reach it; "
            "give an address of this machine in their network, and keys"
        )


def local_cluster(workers: int, resources: Mapping[str, float] | None = None) -> LocalCluster:
    """Create single-threaded workers on this machine, with their own keys.

    Without keys, anyone who can connect to a worker could run any code on it.
    """
    from distributed import LocalCluster
    from distributed.security import Security

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tls://",
        security=Security.temporary(),
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        **({} if resources is None else {"resources": dict(resources)}),
    )


def supervise(session: str, host: GroupHost, folder: str) -> Ended:
    """Run a host process on this worker until it or its session ends; a Dask task.

    If the placer was killed, Dask no longer expects the task's result.
    """
    from distributed import Event, get_worker

    over, worker = Event(session), get_worker()
    task = worker.state.tasks[worker.get_current_task()]
    command = launched(executable(host.name, host.argv, folder), (), 0)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**inherited_environment(), "PYTHONUNBUFFERED": "1", **host.env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            while process.poll() is None and task.state == "executing" and not over.wait(POLL_S):
                pass
            process.wait(END_S)  # the master has also requested its end
        except (subprocess.TimeoutExpired, OSError):  # no reaction, or the scheduler is gone
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
        finally:
            if process.poll() is None:
                process.kill()
            status = process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL_BYTES))
        return Ended(process.pid, status, output.read())


def choose_workers(places: Mapping[str, float], count: int) -> list[str]:
    """Addresses of workers for `count` hosts, spread evenly; `places` gives each one's capacity."""
    free = {address: int(number) for address, number in places.items() if number >= 1}
    if sum(free.values()) < count:
        raise ConfigError(
            f"the cluster's workers take {sum(free.values())} host processes, the session has "
            f"{count} groups; start more (dask worker … --resources {LABEL}=1 for each process)"
        )
    chosen: list[str] = []
    for _ in range(count):
        address = max(free, key=lambda one: free[one] - chosen.count(one))
        chosen.append(address)
    return chosen


@contextlib.contextmanager
def connected(cluster: str, count: int) -> Iterator[Client]:
    """Client connected to a cluster, `count` workers if it is `LOCAL`.

    `ConfigError` without Dask, and if no connection is possible.
    """
    try:
        import dask
        from distributed import Client
    except ImportError as error:
        raise ConfigError(
            f"sweeps and --cluster need {error.name}; install hilrt[studies]"
        ) from None

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack, dask.config.set(SETTINGS):
        where: dict[str, Any] = {"address": cluster}
        if cluster == LOCAL:
            where["address"] = stack.enter_context(local_cluster(count, {LABEL: 1}))
        elif os.path.isfile(cluster):
            where = {"scheduler_file": cluster}
        try:
            client = Client(**where, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise ConfigError(
                f"--cluster {cluster}: no Dask scheduler responds there ({error}); start one (dask "
                f"scheduler), or give {LOCAL} to use this machine's processors"
            ) from None
        yield stack.enter_context(client)


def place(order: Order, hosts: Sequence[GroupHost]) -> None:
    """Place all hosts; report each that ends; return when all have ended."""
    from distributed import Event, as_completed

    session = uuid.uuid4().hex
    with connected(order.cluster, order.hosts) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        places = {  # each host occupies a thread
            address: min(about["resources"].get(LABEL, 0), about["nthreads"])
            for address, about in workers.items()
        }
        over = Event(session, client)
        try:
            futures = {}
            for host, worker in zip(hosts, choose_workers(places, len(hosts)), strict=True):
                print(f"{host.name} runs on {worker}", file=sys.stderr)
                future = client.submit(
                    supervise,
                    session,
                    host,
                    order.folder,
                    key=f"{host.name}-{session}",
                    workers=[worker],
                    allow_other_workers=False,
                    resources={LABEL: 1},
                    retries=0,
                )
                futures[future] = host
            for future in as_completed(futures):
                _report(futures[future], future, Path(order.logs))
        finally:
            over.set()


def _report(host: GroupHost, future: Any, logs: Path) -> None:
    """Report to the session how a host ended, and save its output."""
    try:
        ended = Ended(*future.result())
    except Exception as error:  # from the worker: missing folder, or another version
        report(host.name, 0, f"could not be run by its worker: {type(error).__name__}: {error}")
        return
    log = logs / f"{host.name}.log"
    with log.open("wb") as file:
        file.write(ended.output)
    child = Child(host.name, host.argv, log, ForkedProcess(ended.pid))
    child.returncode = ended.status
    last = child.last_words()
    report(host.name, ended.pid, child.describe_exit() + (f": {last}" if last else ""))


def report(name: str, pid: int, text: str) -> None:
    """Write a line to the session."""
    print(json.dumps({"name": name, "pid": pid, "text": text}), flush=True)


class _Ends(BaseException):
    """SIGTERM."""


def _end(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ends


def main() -> int:
    """Place the hosts that the session requests, until the session ends this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--order", type=int, default=0, help="descriptor of the order's file")
    given = parser.parse_args().order
    signal.signal(signal.SIGTERM, _end)
    try:
        with open(given, encoding="utf-8", closefd=False) as file:
            order = Order(*json.loads(file.readline()))
            hosts = [GroupHost(*json.loads(file.readline())) for _ in range(order.hosts)]
        try:
            place(order, hosts)
        except ConfigError as error:
            print(error, file=sys.stderr)
            for host in hosts:
                report(host.name, 0, f"was not started: {error}")
        while True:
            signal.pause()
    except _Ends:
        return 0


if __name__ == "__main__":
    sys.exit(main())
