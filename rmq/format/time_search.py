"""Time search: finds the offset of a queue that belongs to a time (SEARCH_OFFSET_BY_TIMESTAMP).

Store times do not decrease along a queue, so a binary search reads about log2(messages) records.

    lower: the first offset stored at or after the time; the queue's end when there is none
    upper: the last offset stored at or before the time; the queue's start when there is none

Some offsets have no readable record: blanks at the start of a queue, expired or damaged records.
They say nothing about time, so the search reads the offsets after them; a run of more than PROBES
of them is taken for expired, that is older than any time.

Example: store times 10, 20, 20, 30 at offsets 0-3: 20 is 1 (lower) and 2 (upper), 25 is 3 and 2,
31 is 4 and 3, 5 is 0 and 0.
"""

from collections.abc import Callable

PROBES = 256


def search_offset(
    min_offset: int,
    max_offset: int,
    store_time: Callable[[int], int],
    time_ms: int,
    upper: bool = False,
) -> int:
    """The offset in [min_offset, max_offset] for a time. `store_time` gives the milliseconds of an
    offset's record, or a negative number when it cannot be read."""
    low, high = min_offset, max_offset
    while low < high:
        middle = (low + high) // 2
        probe, stored = middle, store_time(middle)
        while stored < 0 and probe + 1 < high and probe - middle < PROBES:
            probe += 1
            stored = store_time(probe)
        if stored < 0 and probe + 1 >= high:
            high = middle  # nothing readable up to `high`, which is known to be late enough
        elif stored < time_ms or (upper and stored == time_ms):
            low = probe + 1
        else:
            high = middle
    return max(min_offset, low - 1) if upper else low
