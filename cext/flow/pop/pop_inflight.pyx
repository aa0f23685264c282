"""Pop in-flight. See pop_inflight.pxd."""
from libc.stdlib cimport realloc

from cext.flow.pop.held_pops cimport wake_pops
from cext.flow.pop.pop_table cimport pair_find


cdef bint inflight_full(const Pops* pops, const PopPair* pair, int32_t queue_id) noexcept nogil:
    return (pops.inflight_max >= 0 and pair != NULL and queue_id < pair.inflight_slots
            and pair.inflight_counts[queue_id] > pops.inflight_max)


cdef void inflight_add(Pops* pops, PopPair* pair, int32_t queue_id, int32_t count) noexcept nogil:
    cdef int64_t* inflight_counts
    cdef int32_t slots = 8
    if pops.inflight_max < 0 or pair == NULL or queue_id < 0:
        return
    if queue_id >= pair.inflight_slots:
        while slots <= queue_id:
            slots *= 2
        inflight_counts = <int64_t*> realloc(pair.inflight_counts, slots * sizeof(int64_t))
        if inflight_counts == NULL:
            return                          # no memory: neither counted nor limited
        pair.inflight_counts = inflight_counts
        while pair.inflight_slots < slots:
            inflight_counts[pair.inflight_slots] = 0
            pair.inflight_slots += 1
    pair.inflight_counts[queue_id] += count


cdef void inflight_remove(PopService s, Topic* topic, const uint8_t* group, uint32_t group_length,
                          int32_t queue_id, int64_t pop_ms, int32_t count) noexcept nogil:
    cdef PopPair* pair
    cdef int64_t before
    if s.pops.inflight_max < 0 or topic == NULL or pop_ms < s.pops.opened_ms:
        return
    pair = pair_find(&s.pops, topic, group, group_length)
    if pair == NULL or not 0 <= queue_id < pair.inflight_slots:
        return
    before = pair.inflight_counts[queue_id]
    pair.inflight_counts[queue_id] = before - count if before > count else 0
    if before <= s.pops.inflight_max or pair.inflight_counts[queue_id] > s.pops.inflight_max:
        return
    if pair.first != NULL:
        wake_pops(s.pull, pair, queue_id)
    pair = <PopPair*> topic.pop_retry_of
    if pair != NULL and pair.first != NULL:
        wake_pops(s.pull, pair, -1)
