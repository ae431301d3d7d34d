"""Layouts of plan, state and step input: record arrays, one table per kind of object.

In reading order: `record` (definition of a table), `plan`, `state`, `given`, `model` (matrices of
the corrections), `program_tables` (of expressions) with `condition`, `channels` (of the exchange);
from the session file to indices: `ports`, `relation` (sparse relations), `bonds`, `network`.
"""
