"""Random expressions on random samples: texts that use every operation.

``python -m tests.expressions.random_expressions FILE`` writes what they give; with
``NUMBA_DISABLE_JIT=1`` they are evaluated interpreted.
"""

from __future__ import annotations

import contextlib
import sys

import numpy as np

from hilrt.errors import ConfigError
from hilrt.expressions.evaluator import Evaluator
from hilrt.expressions.functions import FUNCTIONS
from hilrt.expressions.program import Program

SIGNALS = dict.fromkeys(("a.x", "a.y", "b.z"), "?")
LEAVES = (*SIGNALS, "1.5", "-0.25", "3", "pi", "unit(time, '?')")
BINARY = ("+", "-", "*", "/", "**", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or")
ROWS = 60
TEXTS = 150


def random_text(rng: np.random.Generator, depth: int) -> str:
    """An expression of that depth at most; of the operands of a filter, half are conditions."""
    if depth == 0:
        return str(rng.choice(LEAVES))

    def part() -> str:
        return random_text(rng, int(rng.integers(depth)))

    kind = rng.integers(10)
    if kind < 3:
        return f"({part()} {rng.choice(BINARY)} {part()})"
    if kind == 3:
        return f"({part()} if {part()} else {part()})"
    if kind == 4:
        return str(rng.choice((f"(not {part()})", f"(-{part()})", f"min({part()}, {part()})")))
    if kind == 5:
        xs, ys = sorted(rng.normal(size=4).tolist()), sorted(rng.normal(size=3).tolist())
        one, two = rng.normal(size=4).tolist(), rng.normal(size=(4, 3)).tolist()
        return str(
            rng.choice(
                (f"lookup({part()}, {xs}, {one})", f"lookup({part()}, {part()}, {xs}, {ys}, {two})")
            )
        )
    name = str(rng.choice(list(FUNCTIONS)))
    function = FUNCTIONS[name]
    arguments = [part() for _ in function.operands]
    arguments += [f"{rng.uniform(0.0004, 0.03):.4f}" for _ in function.numbers]
    return f"unit({name}({', '.join(arguments)}), '?')"


def random_texts(rng: np.random.Generator) -> list[str]:
    """Texts without numbers that have no result, such as roots of negative ones."""
    texts: list[str] = []
    while len(texts) < TEXTS:
        text = random_text(rng, 4)
        with contextlib.suppress(ConfigError):
            Program.from_texts([text], SIGNALS, step=0.001)
            texts.append(text)
    return texts


def random_rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, samples with what sensors and solvers bring, and when they are valid."""
    t = np.cumsum(rng.uniform(0.0005, 0.002, ROWS))
    values = np.round(rng.normal(size=(ROWS, len(SIGNALS))) * 3.0, 1)
    odd = rng.random(values.shape) < 0.05
    values[odd] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, 5e-324], odd.sum())
    times = t[:, None] - rng.uniform(0.0, 0.0004, values.shape)
    times[rng.random(values.shape) < 0.3] = np.nan  # no new sample
    times[:5, 2] = np.nan
    return t, values, times


def runs() -> dict[str, np.ndarray]:
    """Results of all texts, and the state at the end."""
    rng = np.random.default_rng(7)
    evaluator = Evaluator(random_texts(rng), SIGNALS, step=0.001)
    results = evaluator.run(*random_rows(rng))
    return {"results": results, "state": np.frombuffer(evaluator.save(), dtype="f8")}


if __name__ == "__main__":
    np.savez(sys.argv[1], **runs())
