"""Expressions over signals: text, typed tree, program of operations, and its evaluation.

In reading order: `nodes` (the typed tree), `functions` (what may be called), `parse` with
`read_tree` (text to tree), `known_signals` (what may be named), `operations` (what programs are
made of), `program` with `emit` and `result_units` (trees to tables), `evaluate` with `arithmetic`,
`lookup`, `filters` and `windows` (the one loop over the tables), `evaluator` (for callers in
Python), `session_program` and `take_samples` (the stage of a macro step).

For other rooms::

    parse("engine.speed > 120").signals              # ("engine.speed",)
    Program.from_texts(texts, {"engine.speed": "rad/s"}, step=0.001)
    Evaluator(texts, {"engine.speed": "rad/s"}, step=0.001).step(t, values)

A value that is not known is NaN. Arithmetic passes it on; a comparison with it is false.
"""
