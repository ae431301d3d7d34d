"""Values of parameters: what does not fit a variable is refused before the FMU sees it."""

from types import SimpleNamespace

import pytest

from hilrt.errors import ConfigError
from hilrt.fmu.description import read_fmu
from hilrt.fmu.fmu_ports import select
from hilrt.fmu.variables import items_of
from tests.fmu.build import description, mass, needs_compiler

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
        ({"array": [[1, 2, 3]]}, "it is a nested list; give all elements in one list, row by row"),
        ({"array": []}, "has 0 of its 3 elements"),
        ({"size": [2]}, "it is not an array; give one value"),
        ({"k": [1, 2]}, "it is not an array; give one value"),
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
    with pytest.raises(ConfigError, match=r"params\.k = \[1, 2\].*it is not an array"):
        chosen(2, {"k": [1, 2]})


@pytest.mark.parametrize(
    ("major", "params", "message"),
    [
        (2, {"gear": 2**31}, "give a whole number from -2147483648 to 2147483647"),
        (3, {"gear": 2**40}, "give a whole number from -2147483648 to 2147483647"),
        (3, {"size": -1}, "give a whole number from 0 to 18446744073709551615"),
        (3, {"size": 1e300}, "give a whole number from 0 to"),
        (3, {"size": 2**63}, r"array: is an array of 9223372036854775808 elements, more than"),
        (3, {"size": 10**400}, "does not fit its type UInt64"),
        (2, {"gear": float("nan")}, "give a whole number"),
        (2, {"k": float("nan")}, "give a finite number"),
        (3, {"k": float("inf")}, "give a finite number"),
        (3, {"single": 1e39}, "give a finite number that it can hold"),
        (2, {"mode": 77}, r"there is no item 77; there are 1 \(off\), 2 \(eco\)"),
        (3, {"mode": 0}, "there is no item 0"),
        (3, {"mode": 1.5}, "there is no item 1.5"),
    ],
)
def test_values_outside_of_a_type_are_refused(major, params, message):
    with pytest.raises(ConfigError, match=message):
        chosen(major, params)


def test_the_ends_of_a_type_are_inside():
    whole = {"gear": -(2**31), "fault": 2**31 - 1, "mode": 2.0, "on": True}
    assert chosen(2, whole).start == whole


def test_an_enumeration_without_items_goes_by_number():
    text = description(3).replace(
        "</ModelVariables>",
        '<Enumeration name="mode" valueReference="50" causality="input"/></ModelVariables>',
    )
    assert chosen(3, {"mode": 77}, text).start == {"mode": 77}
    with pytest.raises(ConfigError, match="the FMU lists no items; give a number"):
        chosen(3, {"mode": "eco"}, text)


def test_an_item_whose_value_is_no_integer_is_none():
    items = [SimpleNamespace(name=name, value=name) for name in ("1e-320", " 7 ", "x", "9" * 5000)]
    variable = SimpleNamespace(declaredType=SimpleNamespace(items=items))
    assert items_of(variable) == {" 7 ": 7}
