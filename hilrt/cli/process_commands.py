"""Processes that take part in a session: solvers, gateways, emulated benches, and their keys."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hilrt.cli.common import Overrides, bus_arguments, fail, needs
from hilrt.errors import ConfigError

if TYPE_CHECKING:
    from hilrt.bench.emulate import Emulation
    from hilrt.hosting.database_node import NodeOptions


def solver(
    connect: Annotated[str, typer.Option(help="address of the master")],
    target: Annotated[
        str | None, typer.Argument(help="module:Class of a hilrt.Solver, or MODEL.fmu")
    ] = None,
    name: Annotated[str, typer.Option(help="name of the subsystem in the session file")] = "solver",
    group: Annotated[
        Path | None,
        typer.Option(help="session file with the group --name; there is no target then"),
    ] = None,
    overrides: Overrides = None,
    param: Annotated[
        list[str] | None,
        typer.Option(help="k=v: argument of the class, parameter of the FMU; repeatable"),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="k=v: key of the FMU's table; repeatable")
    ] = None,
    keys: Annotated[Path | None, typer.Option(help="folder of the keys")] = None,
) -> None:
    """Host a solver, an FMU or a group of solvers in this process, for a session."""
    _use_keys(keys)
    if (target is None) == (group is None):
        fail("give either a target, module:Class or MODEL.fmu, or --group SESSION.toml")
    if group is not None:
        if param or option:
            fail("--param and --option are not for groups; change their table with --set")
        from hilrt.hosting.solver_process import host_group

        raise typer.Exit(host_group(group, connect, name, overrides or []))
    if overrides:
        fail("--set is for groups; parameters of a class are given with --param")
    assert target is not None
    from hilrt.hosting.solver_process import main as solver_main

    params, options = _pairs("--param", param), _pairs("--option", option)
    raise typer.Exit(solver_main(target, connect, name, params, options))


def sequence(
    target: Annotated[str, typer.Argument(help="FILE.py:Class of a hilrt.Sequence")],
    connect: Annotated[str, typer.Option(help="address of the master")],
    name: Annotated[
        str, typer.Option(help="name of the subsystem in the session file")
    ] = "sequence",
    param: Annotated[
        list[str] | None, typer.Option(help="k=v: argument of the class; repeatable")
    ] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            help='"QUESTION" = "ANSWER", as in TOML: answer to use without operator; repeatable'
        ),
    ] = None,
    step: Annotated[
        float | None, typer.Option(help="time between its communication points, s")
    ] = None,
    patience: Annotated[
        float | None, typer.Option(help="time after which a step that hangs is reported, s")
    ] = None,
    operated: Annotated[
        bool, typer.Option("--operated", help="an operator can answer questions")
    ] = False,
    adjust: Annotated[
        list[str] | None, typer.Option(help="fault or parameter that it may change; repeatable")
    ] = None,
    keys: Annotated[Path | None, typer.Option(help="folder of the keys")] = None,
) -> None:
    """Host a test sequence in this process; a session starts this command automatically."""
    _use_keys(keys)
    from hilrt.hosting.sequence_process import main as sequence_main
    from hilrt.sequences.bench import Setting

    setting = Setting(Path.cwd(), _answers(answer or []), step, operated, tuple(adjust or ()))
    status = sequence_main(target, connect, name, _pairs("--param", param), setting, patience)
    raise typer.Exit(status)


def gateway(
    session: Annotated[Path, typer.Option(help="session file")],
    subsystem: Annotated[str, typer.Option(help="name of the bench in the session file")],
    connect: Annotated[str, typer.Option(help="address of the master")],
    name: Annotated[
        str | None, typer.Option(help="name under which it connects; default: --subsystem")
    ] = None,
    overrides: Overrides = None,
    keys: Annotated[Path | None, typer.Option(help="folder of the keys")] = None,
) -> None:
    """Connect a bench on CAN to a session; the session starts this command automatically."""
    _use_keys(keys)
    from hilrt.bench.gateway_process import main as gateway_main

    status = gateway_main(session, subsystem, connect, name or subsystem, overrides or [])
    raise typer.Exit(status)


# Options of `hilrt emulate`.

Bus = Annotated[str | None, typer.Option(help="interface=…,channel=…: arguments of python-can")]
Fault = Annotated[str | None, typer.Option(help="silent@T or die@T: fault at time T [s]")]
ListBenches = Annotated[bool, typer.Option("--list", help="list the benches that can be emulated")]
Node = Annotated[
    str | None, typer.Option(help="node of the database to emulate, instead of a bench")
]
NodeSolver = Annotated[
    str | None, typer.Option(help="module:Class of a solver whose ports are signals of the node")
]
Protect = Annotated[
    list[str] | None, typer.Option(help="MESSAGE=METHOD: protect a message of the node")
]


def emulate(
    bench: Annotated[str | None, typer.Argument(help="one of --list")] = None,
    session: Annotated[Path | None, typer.Option(help="session file with the bench")] = None,
    subsystem: Annotated[str | None, typer.Option(help="name of the bench in it")] = None,
    bus: Bus = None,
    database: Annotated[Path | None, typer.Option(help="CAN database")] = None,
    duration: Annotated[float | None, typer.Option(help="duration, s; default: no end")] = None,
    seed: Annotated[int, typer.Option(help="seed of the sensor noise")] = 0,
    fault: Fault = None,
    scenario: Annotated[Path | None, typer.Option(help="TOML file with scheduled faults")] = None,
    overrides: Overrides = None,
    list_: ListBenches = False,
    node: Node = None,
    solver: NodeSolver = None,
    protect: Protect = None,
) -> None:
    """Emulate a test bench, or a node of a CAN database, on the wall clock.

    With --node, --set MESSAGE.SIGNAL=VALUE sets a signal to a number, to a name from its value
    table, or to an expression of time and received signals.
    """
    from hilrt.bench import emulate as emulator

    if list_:
        for name, text in emulator.list_benches():
            typer.echo(f"{name:15} {text}")
        return
    if node is not None:
        from hilrt.hosting.database_node import NodeOptions

        if bus is None or database is None:
            fail("--node needs --bus and --database")
        options = NodeOptions(node, overrides or [], None, protect or [])
        found = _node(options, solver, bus, database)
        found = replace(found, duration=duration, fault=fault, scenario=scenario)
        raise typer.Exit(emulator.main(found))
    if bench is None:
        fail("which bench? `hilrt emulate --list` lists the available ones")
    emulation = emulator.Emulation(
        bench,
        bus={} if bus is None else bus_arguments(bus),
        database=database or Path(),
        duration=duration,
        seed=seed,
        fault=fault,
        scenario=scenario,
    )
    if session is not None and subsystem is not None:
        from hilrt.hosting.database_bench import emulate_session

        status = emulate_session(session, subsystem, emulation, overrides or [])
    elif bus is not None and database is not None:
        status = emulator.main(emulation)
    else:
        fail("give --session and --subsystem, or --bus and --database")
    raise typer.Exit(status)


def _node(options: NodeOptions, solver: str | None, bus: str, database: Path) -> Emulation:
    from hilrt.hosting.database_node import node_emulation
    from hilrt.hosting.load_solver import load_solver

    try:
        made = None if solver is None else load_solver(solver, {}, [Path()])
        return node_emulation(options._replace(solver=made), bus_arguments(bus), database)
    except ConfigError as error:
        fail("\n".join(error.problems))


def keys(
    folder: Annotated[Path, typer.Argument(help="folder in which the keys are stored")],
    names: Annotated[list[str], typer.Argument(help="subsystems that may connect")],
) -> None:
    """Create the keys with which subsystems connect: a pair for the master and one per name."""
    from hilrt.peers.keys import make_keys

    for path in make_keys(folder, names):
        typer.echo(str(path))


def _pairs(option: str, items: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items or []:
        key, equals, value = item.partition("=")
        if not equals or not key:
            fail(f"{option} {item}: write it as key=value")
        pairs[key] = value
    return pairs


def _answers(items: list[str]) -> dict[str, str]:
    """Parse answers by question; both are quoted because either may contain "="."""
    from hilrt.config.parse_toml import TomlError, parse_toml

    answers: dict[str, str] = {}
    for item in items:
        try:
            given = parse_toml(item)
        except TomlError:
            given = {}
        if not given or not all(isinstance(answer, str) for answer in given.values()):
            fail(f'--answer {item}: write it as \'"QUESTION" = "ANSWER"\'')
        answers |= given
    return answers


def _use_keys(folder: Path | None) -> None:
    """Set the folder of the keys for the master; a session sets it for its own processes."""
    if folder is not None:
        from hilrt.peers.keys import VARIABLE

        os.environ[VARIABLE] = str(folder.resolve())


# Commands that watch a running session or serve its page.


def watch(
    address: Annotated[str, typer.Argument(help="address at [monitor] listen of the session")],
    plain: Annotated[
        bool, typer.Option("--plain", help="print lines instead of the live view")
    ] = False,
) -> None:
    """Show a session that runs on another machine; with HILRT_TOKEN set, also operate it."""
    from hilrt.monitor.watch import main as watch_main

    raise typer.Exit(watch_main(address, plain=plain))


def monitor(
    address: Annotated[str, typer.Argument(help="address at [monitor] listen of the session")],
    page: Annotated[str, typer.Option(help="[ADDRESS:]PORT of the page")] = "127.0.0.1:5006",
    foxglove: Annotated[
        str | None,
        typer.Option(
            help="[ADDRESS:]PORT: serve Foxglove and Lichtblick there, instead of the page"
        ),
    ] = None,
) -> None:
    """Serve the web page of a running session."""
    if foxglove is not None:
        with needs("foxglove", "the bridge"):
            from hilrt.monitor.foxglove import main as foxglove_main
        raise typer.Exit(foxglove_main(["--connect", address, "--foxglove", foxglove]))
    with needs("web", "the page"):
        from hilrt.web.server import main as web_main
    raise typer.Exit(web_main(["--connect", address, "--page", page]))


# Commands for FMUs: ``hilrt fmu info`` and ``hilrt import-ssp``.

_MISSING = "FMUs need FMPy; install hilrt[fmu]"

fmu_app = typer.Typer(help="Examine an FMU.", no_args_is_help=True)


@fmu_app.callback()
def _about() -> None:
    """Examine an FMU."""


@fmu_app.command()
def info(model: Annotated[Path, typer.Argument(help="FMU file", metavar="MODEL.fmu")]) -> None:
    """Show the ports and capabilities of an FMU, and what hilrt uses each capability for."""
    try:
        from hilrt.fmu.description import read_fmu
        from hilrt.fmu.info import page
    except ImportError:
        raise ConfigError(_MISSING) from None
    typer.echo(page(read_fmu(model)), nl=False)


def import_ssp(
    system: Annotated[Path, typer.Argument(help="SSP archive", metavar="SYSTEM.ssp")],
    out: Annotated[Path | None, typer.Option(help="session file; default: SYSTEM.toml")] = None,
    hosted: Annotated[bool, typer.Option(help="run each FMU in a separate process")] = False,
) -> None:
    """Write a session file for a system of FMUs (SSP)."""
    try:
        from hilrt.fmu import ssp_session
    except ImportError:
        raise ConfigError(_MISSING) from None
    target = out or Path(system.stem).with_suffix(".toml")
    for note in ssp_session.import_ssp(system, target, hosted):
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{target} written; hilrt check {target} lists the remaining choices")
