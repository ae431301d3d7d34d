"""What can wait is done only where it fits."""

from hilrt.timing.grid import MARGIN, SlackBudget

US = 1000


def test_the_first_turn_tells_what_a_turn_takes():
    budget = SlackBudget()
    assert budget.fits(1)
    budget.add(300 * US)
    assert budget.took_ns == 300 * US
    assert not budget.fits(round(MARGIN * 300 * US))
    assert budget.fits(round(MARGIN * 300 * US) + 10 * US)
    assert (budget.made, budget.skipped) == (1, 1)


def test_nothing_fits_into_slack_that_is_over():
    budget = SlackBudget()
    assert not budget.fits(0)
    assert not budget.fits(-5 * US)


def test_one_stall_is_soon_forgotten():
    budget = SlackBudget()
    budget.add(100 * US)
    budget.add(50_000 * US)
    assert budget.took_ns == 200 * US
    for _ in range(20):
        budget.add(100 * US)
    assert budget.took_ns < 110 * US


def test_turns_that_take_longer_are_believed():
    budget = SlackBudget()
    budget.add(100 * US)
    for _ in range(3):
        budget.add(500 * US)
    assert budget.took_ns == 500 * US


def test_turns_that_became_quicker_are_found_out_in_the_end():
    budget = SlackBudget()
    budget.add(900 * US)  # compiled on the way, say
    tries = 0
    while not budget.fits(500 * US):
        tries += 1
        assert tries < 200
    budget.add(50 * US)
    assert budget.took_ns < 900 * US / 2
