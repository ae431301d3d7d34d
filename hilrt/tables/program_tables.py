"""Tables of a program, into which a session's expressions are compiled.

Operations are listed in the order of their execution; each one reads registers and writes one of
its own. Every number is a register: signals first, then constants and results.
"""

from __future__ import annotations

from hilrt.tables.record import TableRow, f8, i8


class OperationRow(TableRow):
    """Operation of a program."""

    code: i8  # of `hilrt.expressions.operations`
    target: i8  # register
    # registers that are read; with fewer operands the first is repeated
    a: i8
    b: i8
    c: i8
    p: f8  # parameters: a factor, a time in s, ...
    q: f8
    first: i8  # row of `memory`, or of `points`
    rows: i8  # slots of the memory, or points of the first axis
    columns: i8  # points of the second axis


class LookupPoint(TableRow):
    """Number of a lookup table: axis points first, then the values, row by row."""

    value: f8


class ReadingRow(TableRow):
    """Output whose newest sample is in a register; one row for each of the first registers."""

    output: i8


class CalculatedOutput(TableRow):
    """Calculated channel: the output for which a register's value is a sample."""

    register: i8
    output: i8


class ChannelSource(TableRow):
    """Output that a calculated channel reads, directly or through other channels."""

    channel: i8
    source: i8


class Register(TableRow):
    """Register of a program; values in SI units."""

    value: f8  # NaN if unknown; apply_changes, stimulate_parameters, calculate
    t: f8  # time of validity of its newest sample, s; NaN: none yet; calculate


class Word(TableRow):
    """Word of the filters' memory: a value in SI units, a time, or a count."""

    value: f8  # calculate
