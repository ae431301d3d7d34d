"""Network namespaces of Linux, for tests of more than one machine."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Address of the first namespace.
HEAD = "10.231.77.1"


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=10)
    if done.returncode:
        raise OSError(done.stderr.strip())


@contextlib.contextmanager
def joined_networks() -> Iterator[list[str]]:
    """A namespace for the head, and two for workers, joined by a bridge in the first."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        pytest.skip("needs Linux and the command ip")
    names = [f"hilrt{os.getpid()}{kind}" for kind in "abc"]
    with contextlib.ExitStack() as undo:
        try:
            for name in names:
                ip("netns", "add", name)
                undo.callback(ip, "netns", "delete", name)
                ip("-n", name, "link", "set", "lo", "up")
            ip("-n", names[0], "link", "add", "br0", "type", "bridge")
            ip("-n", names[0], "addr", "add", f"{HEAD}/24", "dev", "br0")
            ip("-n", names[0], "link", "set", "br0", "up")
            for number, name in enumerate(names[1:], 2):
                near = f"near{number}"
                ip("-n", names[0], *f"link add {near} type veth peer far netns {name}".split())
                ip("-n", names[0], "link", "set", near, "master", "br0", "up")
                ip("-n", name, "addr", "add", f"10.231.77.{number}/24", "dev", "far")
                ip("-n", name, "link", "set", "far", "up")
        except OSError as error:
            pytest.skip(f"network namespaces are not permitted here: {error}")
        yield names


@contextlib.contextmanager
def running(name: str, *command: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Python module in a namespace, ended with the block."""
    with (folder / f"{name}.txt").open("w") as log:
        process = subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-m", *command], stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def tls_settings(folder: Path) -> dict[str, str]:
    """Keys of a Dask cluster, as Dask's settings in the environment."""
    from distributed.security import Security

    made, found = Security.temporary(), {}
    files = {"CA_FILE": "tls_ca_file"}
    for role in ("CLIENT", "WORKER", "SCHEDULER"):
        files |= {
            f"{role}__{kind.upper()}": f"tls_{role.lower()}_{kind}" for kind in ("cert", "key")
        }
    for key, attribute in files.items():
        file = folder / f"{attribute}.pem"
        file.write_text(getattr(made, attribute))
        found[f"DASK_DISTRIBUTED__COMM__TLS__{key}"] = str(file)
    return found | {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true"}
