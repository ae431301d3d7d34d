"""Tables and texts of expectations: what they mean, and what is refused."""

import pytest

from hilrt.config.structs import Expect
from hilrt.errors import ConfigError
from hilrt.expect.expectation import read_expectation, read_spec, read_tables
from hilrt.expect.formula import Atom, HoldsUntil, Junction, Window, atoms, is_limit, read_formula

S = 1_000_000_000


def shown(formula):
    """A formula as nested tuples, windows in s."""
    match formula:
        case Atom():
            return formula.margin, formula.strict
        case Junction():
            return ("all" if formula.all else "any", *map(shown, formula.parts))
        case Window():
            name = "always" if formula.always else "eventually"
            end = None if formula.end_ns is None else formula.end_ns / S
            return name, formula.begin_ns / S, end, shown(formula.part)
        case HoldsUntil():
            end = None if formula.end_ns is None else formula.end_ns / S
            return "until", formula.begin_ns / S, end, shown(formula.part), shown(formula.goal)


A, B = ("(a.x) - (1)", True), ("(2) - (b.y)", False)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a.x > 1", A),
        ("not a.x > 1", ("(1) - (a.x)", False)),
        ("not (a.x > 1 and b.y <= 2)", ("any", ("(1) - (a.x)", False), ("(b.y) - (2)", True))),
        ("1 < a.x <= 3", ("all", ("(a.x) - (1)", True), ("(3) - (a.x)", False))),
        ("a.x == 1", ("-abs((a.x) - (1))", False)),
        ("a.x != 1", ("abs((a.x) - (1))", True)),
        ("rising(a.x > 1)", ("abs(rising(a.x > 1))", True)),
        ("always(a.x > 1)", ("always", 0.0, None, A)),
        ("not always(a.x > 1, 2)", ("eventually", 0.0, 2.0, ("(1) - (a.x)", False))),
        ("eventually(a.x > 1, 0.5, 2)", ("eventually", 0.5, 2.0, A)),
        ("until(a.x > 1, b.y <= 2, 3.0)", ("until", 0.0, 3.0, A, B)),
        (
            "always(implies(a.x > 1, eventually(b.y <= 2, 0.5)))",
            ("always", 0.0, None, ("any", ("(1) - (a.x)", False), ("eventually", 0.0, 0.5, B))),
        ),
    ],
)
def test_a_text_is_its_formula(text, meaning):
    assert shown(read_formula(text)) == meaning


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.x >", "column"),
        ("always(a.x > 1", "column"),
        ("always()", "needs a condition"),
        ("until(a.x > 1)", "needs two conditions"),
        ("always(a.x > 1, b.y)", "needs a number of seconds"),
        ("always(a.x > 1, -1)", "0 s or later"),
        ("always(a.x > 1, 3, 2)", "swap its numbers"),
        ("always(a.x > 1, within=2)", "in seconds"),
        ("always(eventually(a.x > 1))", "needs a window"),
        ("always(a.x > 1) and eventually(b.y > 1)", "needs a window"),
        ("always(until(a.x > 1, b.y > 1, 2))", "must be outermost"),
        ("not until(a.x > 1, b.y > 1)", "the opposite condition instead"),
        ("always(a.x > 1) + 1", "always"),
        ("__import__('os')", "__import__"),
        ("a.x > " + "1 + " * 2000 + "1", "characters"),
    ],
)
def test_what_is_no_formula_is_refused_with_a_remedy(text, said):
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        read_formula(text)


def read(**keys):
    keys = {
        {"for": "for_", "while": "while_", "from": "from_"}.get(k, k): v for k, v in keys.items()
    }
    return read_expectation(Expect(name="n", **keys))


@pytest.mark.parametrize(
    ("keys", "meaning"),
    [
        ({"always": "a.x > 1"}, ("always", 0.0, None, A)),
        ({"always": "a.x > 1", "after": 1.0, "for": 2.0}, ("always", 1.0, 3.0, A)),
        ({"always": "a.x > 1", "while": "b.y > 2"}, ("always", 0.0, None, ("any", B, A))),
        ({"eventually": "a.x > 1", "within": 2.0}, ("eventually", 0.0, 2.0, A)),
        (
            {"eventually": "a.x > 1", "for": 0.5, "within": 2.0},
            ("eventually", 0.0, 2.0, ("always", 0.0, 0.5, A)),
        ),
        ({"always": "a.x > 1", "until": "b.y <= 2", "within": 4.0}, ("until", 0.0, 4.0, A, B)),
        ({"formula": "always(a.x > 1)"}, ("always", 0.0, None, A)),
    ],
)
def test_keys_are_their_formula(keys, meaning):
    assert shown(read(**keys).formula) == meaning


def test_a_trigger_and_its_times():
    found = read(when="b.y > 3", eventually="a.x > 1", within=2.0, to=9.0, **{"from": 1.0})
    assert found.timing == (1 * S, 9 * S, True)
    assert shown(found.condition) == ("(b.y) - (3)", True)
    assert found.text == "eventually a.x > 1, within 2 s, when b.y > 3, from 1 s, to 9 s"
    assert [atom.text for atom in found.atoms] == ["a.x > 1", "b.y > 3"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "give one of always, eventually, formula"),
        ({"always": "a.x > 1", "eventually": "a.x > 1"}, "give one of"),
        ({"always": "a.x > 1", "within": 1.0}, "use for"),
        ({"always": "a.x > 1", "when": "b.y > 1"}, "use `while`"),
        ({"eventually": "a.x > 1", "until": "b.y > 1"}, "needs always"),
        ({"eventually": "a.x > 1", "while": "b.y > 1"}, "only works with"),
        ({"formula": "always(a.x > 1)", "within": 1.0}, "write it in the formula"),
        ({"always": "eventually(a.x > 1)"}, "an operator over time"),
        ({"always": "a.x > 1", "from": 3.0, "to": 2.0}, "swap"),
        ({"eventually": "a.x > 1", "within": 1.0, "after": 2.0}, "later than within"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, said):
    with pytest.raises(ConfigError) as caught:
        read(**keys)
    assert said in str(caught.value)


def test_only_what_one_sample_can_break_is_a_limit():
    limits = {"always(a.x > 1)": True, "a.x > 1": True, "always(always(a.x > 1, 1.0))": True}
    limits |= {"eventually(a.x > 1)": False, "until(a.x > 1, a.x > 2)": False}
    assert {text: is_limit(read_formula(text)) for text in limits} == limits


def test_a_specification_tells_everything_that_is_wrong_with_its_place(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(
        '[[expect]]\nname = "one"\nalways = "a.x >"\n'
        '[[expect]]\nname = "one"\nalways = "a.x > 1"\nwhithin = 2.0\n'
        '[[expect]]\nalways = "a.x > 1"\n'
    )
    with pytest.raises(ConfigError) as caught:
        read_spec(path)
    said = caught.value.problems
    assert any("[expect 1: one]" in line and "column" in line for line in said)
    assert any("whithin" in line and "within" in line for line in said)
    assert any("name" in line and "is missing" in line for line in said)
    path.write_text("[session]\n")
    with pytest.raises(ConfigError, match="contains no expectation"):
        read_spec(path)
    with pytest.raises(ConfigError, match=r"\[\[expect\]\]"):
        read_tables({"expect": {"name": "x"}})


def test_atoms_stand_from_left_to_right():
    formula = read_formula("always(implies(a.x > 1, a.y > 2 or a.z > 3))")
    assert [atom.text for atom in atoms(formula)] == ["a.x <= 1", "a.y > 2", "a.z > 3"]
