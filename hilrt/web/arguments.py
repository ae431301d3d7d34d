"""The arguments of the page's process; it reads them before it loads what takes long."""

from __future__ import annotations

import argparse

from hilrt.peers.addresses import LOOPBACK


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """What the command line says; exit status 2 if that is wrong."""
    parser = argparse.ArgumentParser(prog="hilrt monitor", description="Serves the web page.")
    parser.add_argument("--connect", required=True, help="address of the telemetry stream")
    parser.add_argument("--commands", default="", help="address for the operators' commands")
    parser.add_argument("--page", default=f"{LOOPBACK}:5006", help="[ADDRESS:]PORT of the page")
    parser.add_argument("--sockets", type=int, nargs="*", default=[], help="of the page, bound")
    return parser.parse_args(arguments)
