"""What a user writes: a class with the signals that it reads, the ports that it drives, and `run`.

::

    class TipIn(hilrt.Sequence):
        reads = ("engine.speed", "engine.torque")
        drives = (Port("pedal", "%"),)

        async def run(self, bench):
            await bench.ramp("pedal", to=20.0, rate=50.0)
            await bench.until("engine.speed > 120", timeout=10.0)
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from typing import TYPE_CHECKING

from hilrt.errors import ConfigError
from hilrt.solver import Port, Ports

if TYPE_CHECKING:
    from hilrt.sequences.bench import SequenceBench

#: Appended to the name of a port: the output that is 1 while the sequence drives the port, else 0.
DRIVEN = ".driven"


class Sequence:
    """A test sequence. Subclass it, and write `run`.

    The class is made with the session file's `params` as keyword arguments. `run` goes on at every
    communication point, with the samples of that point; what it drives acts from the next one on.
    When it returns, the session ends in order. Whatever it raises ends the session with the stop
    sequence of the benches.
    """

    #: Outputs of other subsystems, ``subsystem.port``: they are connected by these names, and come
    #: as they were sampled, never extrapolated or corrected.
    reads: Several[str] = ()
    #: What the sequence sets. It is held between communication points.
    drives: Several[Port] = ()
    #: Session file in which ``hilrt test`` runs it, relative to the sequence's own file.
    session: str | None = None

    async def run(self, bench: SequenceBench) -> None:
        """Do the test; see `SequenceBench` for what there is to await and to call."""
        raise NotImplementedError(f"{type(self).__name__} has no run; write `async def run`")


def ports_of(sequence: Sequence) -> Ports:
    """Inputs, named as what they read, and outputs with their companions; `ConfigError`."""
    target = type(sequence).__name__
    problems = []
    reads, drives = sequence.reads, sequence.drives
    if isinstance(reads, str) or not all(isinstance(name, str) for name in reads):
        problems.append(f"{target}: reads = {reads!r}; write a tuple of texts, ('a.x',)")
    elif wrong := [name for name in reads if not all(name.partition("."))]:
        problems.append(f"{target}: reads {wrong[0]!r}; write it as subsystem.port")
    elif len({*reads}) < len(reads):
        problems.append(f"{target}: reads names a signal twice; remove one")
    if isinstance(drives, Port) or not all(isinstance(port, Port) for port in drives):
        problems.append(f"{target}: drives = {drives!r}; write a tuple, (hilrt.Port('x'),)")
    elif vectors := [port.name for port in drives if port.size != 1]:
        problems.append(f"{target}: drives {vectors[0]!r} with several elements; name each one")
    elif len({port.name for port in drives}) < len(drives):
        problems.append(f"{target}: drives a port twice; remove one")
    if problems:
        raise ConfigError(problems)
    inputs = tuple(Port(name) for name in reads)
    companions = tuple(
        Port(port.name + DRIVEN, description=f"1 while the sequence drives {port.name}")
        for port in drives
    )
    return Ports(inputs, (*drives, *companions))
