"""A subsystem's matrices as a message, `Linearised`, and back; invalid ones are refused."""

from __future__ import annotations

import math

import numpy as np

from hilrt.errors import ProtocolError
from hilrt.link import LARGEST_STATE, SWITCHES, UNSEEN, LinearModel
from hilrt.peers.wire import MAX_MESSAGE_BYTES, Linearised, encode, pack, unpack

#: Keys of the matrices.
_MATRICES = ("A", "B", "C", "D")


def linear_answer(model: LinearModel | None) -> Linearised:
    """A solver's answer: no matrices where there are none, or a message cannot hold them."""
    if model is None or model.lacking:
        return Linearised()
    A, B, C, D, fineness = (pack(array) for array in model[:5])
    slope = None if model.slope is None else pack(model.slope)
    answer = Linearised(
        A=A,
        B=B,
        C=C,
        D=D,
        fineness=fineness,
        linear=bool(model.linear),
        slope=slope,
        inside=model.inside,
    )
    return answer if len(encode(answer)) <= MAX_MESSAGE_BYTES else Linearised()


def linear_model(
    answer: Linearised, n_inputs: int, n_outputs: int, members: int = 1
) -> LinearModel | None:
    """The answer as the master uses it; a group has as many `members`.

    Raises
    ------
    ProtocolError
        If a matrix does not fit the announced ports or the others, is not finite, or there are
        more states than are followed.
    """
    if answer.A is None:
        return None
    nx = math.isqrt(len(answer.A) // 8)
    most = LARGEST_STATE * members
    if nx > most:
        raise ProtocolError(f"Linearised: {nx} states; at most {most} are accepted")
    shapes = {"A": (nx, nx), "B": (nx, n_inputs), "C": (n_outputs, nx), "D": (n_outputs, n_inputs)}
    arrays = {}
    for key in _MATRICES:
        try:
            arrays[key] = unpack(getattr(answer, key), *shapes[key])
        except ProtocolError as error:
            raise ProtocolError(f"Linearised: {key}: {error}") from None
    shares = {}
    for key in ("fineness", "slope"):
        packed = getattr(answer, key)
        try:
            shares[key] = np.ones(n_inputs) if packed is None else unpack(packed, n_inputs)
        except ProtocolError as error:
            raise ProtocolError(f"Linearised: {key}: {error}") from None
    for key, array in arrays.items():
        if not np.isfinite(array).all():
            raise ProtocolError(f"Linearised: {key} contains values that are not finite")
    for key, share in shares.items():
        if not ((share >= 0.0) & (share <= 1.0)).all():
            raise ProtocolError(f"Linearised: {key} holds values outside 0 to 1")
    if not UNSEEN <= answer.inside <= SWITCHES:
        raise ProtocolError(f"Linearised: inside = {answer.inside}; it is 0, 1 or 2")
    A, B, C, D = (arrays[key] for key in _MATRICES)
    slope = shares["slope"]
    return LinearModel(
        A, B, C, D, shares["fineness"], answer.linear, slope=slope, inside=answer.inside
    )
