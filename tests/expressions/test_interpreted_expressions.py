"""The loop over operations gives the same bits compiled and interpreted."""

import numpy as np

from hilrt.expressions.functions import FUNCTIONS
from hilrt.expressions.program import Program
from tests.expressions import random_expressions
from tests.expressions.random_expressions import SIGNALS, random_texts, runs
from tests.interpreted import assert_same_bits, left_by_interpreted


def test_same_bits(tmp_path):
    assert_same_bits(runs(), left_by_interpreted(random_expressions.__name__, tmp_path))


def test_every_operation_is_among_them():
    texts = random_texts(np.random.default_rng(7))
    program = Program.from_texts(texts, SIGNALS, step=0.001)
    used = set(program.operations["code"].tolist())
    assert {function.code for function in FUNCTIONS.values()} <= used
