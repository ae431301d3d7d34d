"""Robustness of signal temporal logic straight from its definition, in O(n · window)."""

import math

from hilrt.expect.formula import Atom, HoldsUntil, Junction, Window


def robustness(formula, k, times, margins, last):
    """At sample k of a finite trace; windows count up to the sample number `last`.

    An empty window is NaN: nothing is known.
    """
    match formula:
        case Atom():
            return margins[formula][k]
        case Junction():
            found = [robustness(part, k, times, margins, last) for part in formula.parts]
            return (min if formula.all else max)(found)
        case Window():
            found = [
                robustness(formula.part, j, times, margins, last)
                for j in inside(formula, k, times, last)
            ]
            return (min if formula.always else max)(found) if found else math.nan
        case HoldsUntil():
            found = []
            for j in inside(formula, k, times, last):
                held = [robustness(formula.part, i, times, margins, last) for i in range(k, j)]
                found.append(min([robustness(formula.goal, j, times, margins, last), *held]))
            return max(found) if found else math.nan


def inside(operator, k, times, last):
    """Samples in the window of an operator."""
    since = times[k] + operator.begin_ns
    until = math.inf if operator.end_ns is None else times[k] + operator.end_ns
    return [j for j in range(k, last + 1) if since <= times[j] <= until]
