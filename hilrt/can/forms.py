"""Forms of a multiplexed message that is received: each one is timed by its own interval.

A form is what the frames of a message carry with one value of its multiplexer, such as
``EngineTemps with Page = 2``. While other forms go on coming the message is fresh, and one that
stays away would leave its newest values standing for ever. No database says how often a form comes:
some take turns, others are sent rarely on purpose. So its interval is learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from cantools.database.can import Message

from hilrt.can.codec import selectors
from hilrt.timing.last_heard import LastHeard

#: A form is missed after that many of its intervals, if that is longer than the message's timeout.
SILENT_INTERVALS = 3
#: The interval is known after so many …
KNOWN_AFTER = 10
#: … and until then no form is missed earlier than this, ns: so long the first one is waited for.
UNKNOWN_NS = 10_000_000_000
#: What counts is the longest of the newest intervals; this share of it is forgotten with each one.
FORGET = 0.02
#: More values of a multiplexer than these are told by the first and the last.
TOLD = 4


class Form:
    """One form of a message, as far as its signals are used.

    It does not see every frame: a look at the time of the newest one now and then costs nothing
    beside the decoding.

    Parameters
    ----------
    name : str
        Message and multiplexer values.
    output : int or None
        One of the outputs that it carries; None: it carries the enable state alone.
    timeout_ns : int
        Of the message, ns: the form is missed no earlier.

    Attributes
    ----------
    signals : list of str
        Those of its signals that are used.
    heard : LastHeard
        Its newest frame that counted, as far as it has been looked at.
    timeout_ns : int
        It is missed when the message has come without it for so long, ns.
    """

    def __init__(self, name: str, output: int | None, timeout_ns: int) -> None:
        self.name = name
        self.output = output
        self.signals: list[str] = []
        self.heard = LastHeard()
        self._least_ns = timeout_ns
        self._early_ns = self.timeout_ns = max(timeout_ns, UNKNOWN_NS)
        self._intervals = 0
        self._longest_ns = 0.0

    def look(self, newest: int, message_ns: int) -> float:
        """For how long its message has come without it, over its timeout.

        The message's own silence makes it no older: that is told of the message.

        Parameters
        ----------
        newest : int
            Its newest frame, ns; 0: none yet.
        message_ns : int
            The newest frame of the message, ns.
        """
        if not newest:
            return math.inf
        before = self.heard.at
        if newest > before:  # a stall that is left out may have moved it beyond the newest
            self.heard.heard(newest)
            if before:
                self._learn(newest - before)
        return (message_ns - self.heard.at) / self.timeout_ns

    def _learn(self, interval: int) -> None:
        if interval > self.timeout_ns and self._intervals >= KNOWN_AFTER:
            return  # it was missed: that is not its pace
        self._intervals += 1
        longest = self._longest_ns + FORGET * (interval - self._longest_ns)
        self._longest_ns = longest if longest > interval else interval
        timeout = int(SILENT_INTERVALS * self._longest_ns)
        least = self._least_ns if self._intervals >= KNOWN_AFTER else self._early_ns
        self.timeout_ns = timeout if timeout > least else least


def forms_of(message: Message, used: Mapping[str, int | None], timeout_ns: int) -> list[Form]:
    """The forms that carry the signals in use; none of a message without multiplexers.

    Parameters
    ----------
    message : Message
    used : mapping of str to int or None
        The signals, each with its output; None for the enable state.
    timeout_ns : int
        Of the message, ns.
    """
    forms: dict[str, Form] = {}
    for signal, output in used.items():
        selected = selectors(message, message.get_signal_by_name(signal))
        if selected:
            key = repr([(switch, sorted(values)) for switch, values in selected])
            name = f"{message.name} with {_text(selected)}"
            forms.setdefault(key, Form(name, output, timeout_ns)).signals.append(signal)
    return list(forms.values())


def _text(selected: list[tuple[str, set[int]]]) -> str:
    """``Page = 2``, of nested ones ``Page = 2 and Row = 0 or 1``."""
    return " and ".join(f"{switch} = {_values(values)}" for switch, values in reversed(selected))


def _values(values: set[int]) -> str:
    told = [str(value) for value in sorted(values)]
    return " or ".join(told) if len(told) <= TOLD else f"{told[0]} to {told[-1]}"
