"""Values of parameters: what does not fit a variable is refused before the FMU sees it."""

import pytest

from hilrt.errors import ConfigError
from hilrt.fmu.description import read_fmu
from hilrt.fmu.ports import select
from tests.fmu.build import mass, needs_compiler

pytestmark = needs_compiler


def chosen(major, params, xml=None):
    return select(read_fmu(mass(major, types=True, xml=xml)), params)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"array": [1, 2]}, "has 2 of its 3 elements; give a list of 3"),
        ({"array": [1, 2, 3, 4]}, "has 4 of its 3 elements"),
        ({"array": 5}, "has 1 of its 3 elements"),
        ({"array": [1, 2, 3], "size": 2}, "has 3 of its 2 elements"),
        ({"array": [[1, 2, 3]]}, "does not fit its type Float64"),
        ({"size": [2]}, "it is no array; give one value"),
        ({"k": [1, 2]}, "it is no array; give one value"),
    ],
)
def test_values_of_an_array_are_one_for_each_element(params, message):
    with pytest.raises(ConfigError, match=message) as caught:
        chosen(3, params)
    assert len(caught.value.problems) == 1


def test_arrays_of_the_right_length():
    assert chosen(3, {"array": [1, 2], "size": 2}).start == {"array": [1.0, 2.0], "size": 2}
    assert chosen(3, {"array": 4.0, "size": 1}).start == {"array": 4.0, "size": 1}


def test_fmi_2_has_no_arrays():
    with pytest.raises(ConfigError, match=r"params\.k = \[1, 2\].*it is no array"):
        chosen(2, {"k": [1, 2]})
