"""Ages without the stalls of the process that hears."""

from __future__ import annotations

from hilrt.timing.monotonic import STALL_LIMIT_NS, LastHeard

MS = 1_000_000


def test_stalls_do_not_count_until_they_amount_to_the_limit() -> None:
    heard = LastHeard()
    heard.heard(1000 * MS)
    heard.leave_out(1300 * MS, 290 * MS)
    assert (heard.at, heard.stalled) == (1290 * MS, 290 * MS)
    heard.leave_out(5000 * MS, 3000 * MS)  # in full, however long
    assert heard.at == 4290 * MS
    assert heard.stalled >= STALL_LIMIT_NS
    heard.leave_out(6000 * MS, 900 * MS)  # the limit is used up
    assert heard.at == 4290 * MS


def test_no_message_is_newer_than_now() -> None:
    heard = LastHeard()
    heard.heard(1000 * MS)
    heard.leave_out(1010 * MS, 40 * MS)
    assert heard.at == 1010 * MS


def test_news_renew_the_limit_and_older_messages_do_not() -> None:
    heard = LastHeard()
    heard.heard(1000 * MS)
    heard.leave_out(2500 * MS, 1400 * MS)
    heard.heard(2300 * MS)  # had been waiting since before the end of the stall
    assert (heard.at, heard.stalled) == (2400 * MS, 1400 * MS)
    heard.heard(2600 * MS)
    assert (heard.at, heard.stalled) == (2600 * MS, 0)
