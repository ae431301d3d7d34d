"""Expressions over signals: text, typed tree, program of operations, and its evaluation.

In reading order: `nodes` (the typed tree), `functions` (the functions of the language), `parse`
with `read_tree` (text to tree), `operations` (the operations of a program), `program` with `emit`
(trees to tables, units), `evaluate` with `filters` (the one loop over the tables, and the stage of
a macro step), `evaluator` (for callers in Python), `session_program`.

Use from other packages::

    parse("engine.speed > 120").signals              # ("engine.speed",)
    Program.from_texts(texts, {"engine.speed": "rad/s"}, step=0.001)
    Evaluator(texts, {"engine.speed": "rad/s"}, step=0.001).step(t, values)

An unknown value is NaN. Arithmetic propagates it; a comparison with it is false.
"""
