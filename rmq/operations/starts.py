"""Starts: where reading begins and ends in each queue, as people write it.

    first, start        at the first message that is there
    last, end           behind the last message
    17  17:             at offset 17
    17:25  :25          from offset 17, or the first, to before offset 25
    -10                 at the tenth message before the end of each queue
    @2025-06-01T08:30   at the first message stored at that time or later: any moment of times.py,
    @-1h  -1h           such as @1763726400000 or @2025-06-01T06:30:00Z; the @ may be left out
    @-2h:@-1h           from the first message stored two hours ago or later to before the first
                        one stored an hour ago or later

A number of ten digits or more is a time, in s or ms since 1970; an offset so large must have a
colon behind it.
"""

from __future__ import annotations

import re

from rmq.client.blocking.tail import Start
from rmq.operations.times import MOMENTS, moment_ms

WORDS = {"first": "first", "start": "first", "last": "last", "end": "last"}
FORMS = (
    "give first (start), last (end), an offset, N:M for offsets from N to before M, -N for the "
    f"last N of each queue, or @TIME or @TIME:@TIME, where TIME is {MOMENTS}"
)


def parse_start(text: str) -> Start:
    """The start that the text means; ValueError says what may be written."""
    if text in WORDS:
        return Start(WORDS[text])
    if re.fullmatch("[0-9]{1,9}", text):
        return Start("offset", int(text))
    if re.fullmatch("-[0-9]{1,9}", text):
        return Start("back", -int(text))
    if found := re.fullmatch("([0-9]{0,18}):([0-9]{0,18})", text):
        first, end = int(found[1] or 0), int(found[2]) if found[2] else None
        if end is not None and end <= first:
            raise ValueError(f"{text!r}: the range is empty: {first} is not before {end}")
        return Start("offset", first, end) if text != ":" else Start("first")
    begin, mark, until = text.partition(":@")
    try:
        start_ms = moment_ms(begin.removeprefix("@"))
        until_ms = moment_ms(until) if mark else None
    except ValueError:
        raise ValueError(f"{text!r}: {FORMS}") from None
    if until_ms is not None and until_ms <= start_ms:
        raise ValueError(f"{text!r}: the range is empty: its end is not after its beginning")
    return Start("time", start_ms, until_ms=until_ms)
