"""Frames that do not count: what the log says of them."""

import pytest

from hilrt.can.message_stats import MessageStats, RefusedFrames

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("counter", "cause", "words"),
    [
        ("checksum_errors", "can_bad_checksum", "with a wrong checksum"),
        ("out_of_order", "can_bad_sequence", "whose counter went back or too far ahead"),
        ("repeated", "can_stale", "the sender repeats an old frame"),
    ],
)
def test_forged_frames_are_told_apart_from_old_ones(counter, cause, words):
    stats = MessageStats()
    watch = RefusedFrames({"Engine": stats})
    assert watch.poll(0) == []
    setattr(stats, counter, 3)
    (reported,) = watch.poll(SECOND)
    assert reported.cause == cause
    assert reported.text.startswith("Engine: 3 frames ")
    assert words in reported.text


def test_a_kind_is_told_at_once_and_then_once_a_second():
    stats, other = MessageStats(), MessageStats()
    watch = RefusedFrames({"Engine": stats, "Slow": other})
    texts = []
    for i in range(300):  # 3 s
        stats.checksum_errors += 10
        if i == 150:
            other.checksum_errors += 1
        texts += [refusal.text.partition(" with")[0] for refusal in watch.poll(i * SECOND // 100)]
    assert texts == [
        "Engine: 10 frames",
        "Engine: 1,000 frames",
        "Slow: 1 frame",
        "Engine: 1,000 frames",
    ]


def test_frames_with_other_defects_are_no_such_kind():
    stats = MessageStats(decode_errors=1, lost=1, not_available=1, held_up=1)
    assert RefusedFrames({"Engine": stats}).poll(0) == []
