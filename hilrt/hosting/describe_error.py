"""An exception of a user's code in one line, with the place in that code."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path

#: Files of this room are no place to look at for a user.
_HERE = Path(__file__).resolve().parent


def describe(error: BaseException, cls: type | None = None) -> str:
    """``"ValueError: what it says (file.py:12)"``; the line is the deepest one of `cls`'s file."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if Path(frame.filename).resolve().parent != _HERE]
    if cls is not None:
        try:
            own = str(Path(inspect.getfile(cls)).resolve())
        except (TypeError, OSError):
            own = ""
        theirs = [f for f in theirs if str(Path(f.filename).resolve()) == own] or theirs
    where = f" ({theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""
    text = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{text}{where}"
