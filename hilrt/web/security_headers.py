"""Security headers of every answer to a browser. Standard library only.

Scripts run only from this server or with the answer's own nonce, so that text of a session which
came to be HTML by a defect could start none, and no other site can show the page in a frame of its
own, where an operator would press its buttons without seeing them.
"""

from __future__ import annotations

import secrets
from typing import Final

POLICY: Final = "Content-Security-Policy"
#: For answers that are no page: nothing is loaded for them, nothing in them runs.
NOTHING_RUNS: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
#: Of every answer.
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    POLICY: NOTHING_RUNS,
}


def new_nonce() -> str:
    """A word for the scripts of one answer."""
    return secrets.token_urlsafe(18)


def page_policy(nonce: str) -> str:
    """Policy of a page whose inline scripts have the `nonce`.

    Bokeh compiles the functions of its callbacks and of tables in the browser ('unsafe-eval'), from
    code that this server sends, and sets styles on elements; what it draws are blobs and data.
    """
    return "; ".join(
        [
            NOTHING_RUNS,
            f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "form-action 'none'",
        ]
    )
