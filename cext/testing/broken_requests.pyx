"""Broken requests: counts and lists of what waits in the flow, broken on purpose.

    PLANTS["revive_once"]()     does not return (broken_invariant.pyx)
"""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.revive_ring cimport ReviveQueue, ring_add, ring_finish_next


# ------------------------------------------------------------------- revival

cdef ReviveQueue two_points(PopPair* pair, int64_t first_ms, int64_t second_ms):
    """Two check points wait, which are due at these times."""
    cdef ReviveQueue q
    memset(&q, 0, sizeof(q))
    memset(pair, 0, sizeof(PopPair))
    ring_add(&q, pair, 0, 100, 1, first_ms)
    ring_add(&q, pair, 0, 200, 1, second_ms)
    return q


def _revive_places():
    """More check points are kept than there are places: the next one would overwrite one."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.tail = 300
    ring_add(&q, &pair, 0, 300, 1, 30)


def _revive_waiting():
    """One waits for its time that is not kept any more."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.heap_count = 3
    ring_add(&q, &pair, 0, 300, 1, 30)


def _revive_kept():
    """Two are kept, and neither will ever be due."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.heap_count = 0
    ring_add(&q, &pair, 0, 300, 1, 30)


def _revive_over():
    """One ends, and none waits."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.heap_count = 0
    ring_finish_next(&q)


def _revive_number():
    """The one that ends is a number that was never given."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.heap[0] = 7
    ring_finish_next(&q)


def _revive_once():
    """The newer one ends twice, while the older one is still kept."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 20, 10)
    ring_finish_next(&q)
    q.heap[0] = 1
    ring_finish_next(&q)


def _revive_bucket():
    """No ack finds a check point, because its bucket has lost it."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    memset(q.buckets, 0xFF, q.capacity * sizeof(int32_t))
    ring_finish_next(&q)


def _revive_order():
    """Seen only by debug builds: the second one is due first, and is not on top."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.ring[1].revive_ms = 5
    ring_finish_next(&q)


PLANTS = {
    "revive_places": _revive_places, "revive_waiting": _revive_waiting,
    "revive_kept": _revive_kept, "revive_over": _revive_over, "revive_number": _revive_number,
    "revive_once": _revive_once, "revive_bucket": _revive_bucket, "revive_order": _revive_order,
}
