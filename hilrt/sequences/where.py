"""Lines of a sequence, as people are told them."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from pathlib import Path
from types import FrameType

#: Calls in this room are no place to look at for a user.
_HERE = str(Path(__file__).parent)


class Where:
    """Names lines of a sequence's files.

    Parameters
    ----------
    folder : Path
        Files below it are named relative to it, so that logs do not depend on where it is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder.resolve())
        self._names: dict[str, str] = {}

    def caller(self) -> str:
        """``file:line`` of the code that has called into this room."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_HERE):
            frame = frame.f_back
        return "" if frame is None else self.of(frame)

    def of(self, frame: FrameType) -> str:
        """``file:line`` of a frame, or of the nearest one around it that is a user's."""
        return f"{self.name(frame.f_code.co_filename)}:{frame.f_lineno}"

    def error(self, error: BaseException, cls: type) -> str:
        """``"ValueError: what it says (file.py:12)"``; the deepest line of the class's own file.

        Where none of its lines takes part, the deepest one outside this room.
        """
        frames = [f for f in traceback.extract_tb(error.__traceback__) if _HERE not in f.filename]
        own = [f for f in frames if f.filename == inspect.getsourcefile(cls)]
        place = [f"{self.name(f.filename)}:{f.lineno}" for f in own or frames][-1:]
        text = f": {error}" if str(error) else ""
        text += "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        return f"{type(error).__name__}{text}{''.join(f' ({line})' for line in place)}"

    def name(self, file: str) -> str:
        """A file, relative to the folder if it is below it."""
        if file not in self._names:
            path = os.path.relpath(os.path.realpath(file), self._folder)
            self._names[file] = file if path.startswith("..") else path
        return self._names[file]
