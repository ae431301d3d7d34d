"""Compile `assess` into the cache, in a separate process: `load_step` starts it at a first start.

It ends as soon as its standard input is closed, and so ends with its parent process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def end_with_parent() -> None:
    """End this process at once when standard input is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the parent ends, and with it the pipe

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Compile, and write the cache."""
    end_with_parent()
    from hilrt.step.load_step import bind_assess, empty_tables

    bind_assess(*empty_tables())


if __name__ == "__main__":
    main()
