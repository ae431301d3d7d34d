import pytest

from hilrt.errors import ConfigError
from hilrt.models.vehicle_data import VehicleData


def test_defaults_are_consistent() -> None:
    assert VehicleData.from_params({}) == VehicleData()


def test_wheels_add_to_the_mass() -> None:
    data = VehicleData(mass=1000.0, wheel_inertia=2.0, wheel_radius=0.5)
    assert data.translating_mass == 1008.0


def test_numbers_may_come_as_text_from_the_command_line() -> None:
    data = VehicleData.from_params({"mass": "1650", "gear_ratios": "[3.5, 2, 1]"})
    assert data.mass == 1650.0
    assert data.gear_ratios == (3.5, 2.0, 1.0)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"mas": 1500}, "'mas': there is no such parameter; did you mean 'mass'?"),
        ({"cycl": "x.csv"}, "did you mean 'cycle'?"),
        ({"xyz": 1}, "there is mass, f0"),
        ({"mass": 0}, "'mass': found 0; give a number above zero"),
        ({"mass": "heavy"}, "'mass': found 'heavy'"),
        ({"mass": None}, "'mass': found None"),
        ({"f2": -0.1}, "'f2': found -0.1; give a number, zero or more"),
        ({"f2": float("nan")}, "'f2': found nan"),
        ({"wheel_radius": float("inf")}, "'wheel_radius': found inf"),
        ({"gear_ratios": [1.0, 2.0]}, "'gear_ratios': found [1.0, 2.0]; give falling"),
        ({"gear_ratios": []}, "'gear_ratios': found []"),
        ({"gear_ratios": 3.0}, "'gear_ratios': found 3.0"),
        ({"gear_ratios": "4,b"}, "'gear_ratios': found '4,b'"),
        ({"gear_ratios": [2.0, -1.0]}, "falling positive numbers"),
        ({"idle_speed": 700}, "they must rise in this order"),
        ({"stall_torque_ratio": 0.5}, "choose 1…4 and below 1"),
        ({"coupling_ratio": 1.0}, "choose 1…4 and below 1"),
        ({"gear_efficiency": 1.2}, "must not be above 1"),
        ({"input_inertia": 0.01}, "too fast for the micro steps"),
    ],
)
def test_impossible_values_are_named_with_a_remedy(
    params: dict[str, object], expected: str
) -> None:
    with pytest.raises(ConfigError) as error:
        VehicleData.from_params(params)
    assert expected in str(error.value)


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        VehicleData.from_params({"mass": -1, "f0": "x", "colour": "red"})
    assert len(error.value.problems) == 3
