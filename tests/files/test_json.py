import json
import math

import numpy as np

from hilrt.files.json import json_bytes


def test_a_number_that_json_does_not_have_is_null() -> None:
    value = {"a": math.nan, "b": [1.5, -math.inf, {"c": (np.float64(np.nan), True, None, "NaN")}]}
    text = json_bytes(value)
    found = json.loads(text, parse_constant=lambda name: 1 / 0)
    assert found == {"a": None, "b": [1.5, None, {"c": [None, True, None, "NaN"]}]}
