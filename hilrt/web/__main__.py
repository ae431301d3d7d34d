"""``python -m hilrt.web``: the process that `hilrt run --web` starts.

While Bokeh is loading, a plain page is served on the sockets inherited from the session.
"""

import socket
import sys
from collections.abc import Callable

from hilrt.peers.addresses import parse_address
from hilrt.web.plain_server import parse


def wait_for_the_page() -> Callable[[], None]:
    """Serve the plain page on the page's sockets; return a function that stops it."""
    options = parse()
    if not options.sockets:
        return lambda: None
    from hilrt.monitor.read_token import read_token
    from hilrt.web.plain_server import WaitingPage

    sockets = [socket.socket(fileno=number) for number in options.sockets]
    where = parse_address(options.page)
    waiting = WaitingPage(sockets, *where, options.connect, read_token())

    def take_over() -> None:
        waiting.stop()
        for one in sockets:
            one.detach()  # the page's server continues to use their descriptors

    return take_over


def main() -> int:
    """Serve the plain page, then the page itself; exit status 1 if a requirement is missing."""
    take_over = wait_for_the_page()
    try:
        from hilrt.web.server import main as serve
    except ModuleNotFoundError as error:
        if str(error.name).startswith("hilrt"):
            raise
        sys.stderr.write(f"page: needs {error.name}; install hilrt[web]\n")
        return 1
    return serve(take_over=take_over)


if __name__ == "__main__":
    sys.exit(main())
