"""Layouts of plan, state and input: record arrays, one table per kind of thing.

In reading order: `record` (what a table is), `plan`, `state`, `given`, `model` (matrices of the
corrections), `program_tables` (of expressions) with `condition`, `channels` (of the exchange); from
the session file to indices: `ports`, `relation` (who is connected to whom), `bonds`, `network`.
"""
