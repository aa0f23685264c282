"""Pop in-flight. See pop_inflight.pxd."""
from libc.stdlib cimport realloc

from cext.flow.pop.held_pops cimport wake_pops
from cext.flow.pop.pop_table cimport pair_find


cdef bint flight_full(const Pops* pops, const PopPair* pair, int32_t queue_id) noexcept nogil:
    return (pops.flight_max >= 0 and pair != NULL and queue_id < pair.flight_slots
            and pair.flights[queue_id] > pops.flight_max)


cdef void flight_begin(Pops* pops, PopPair* pair, int32_t queue_id, int32_t count) noexcept nogil:
    cdef int64_t* flights
    cdef int32_t slots = 8
    if pops.flight_max < 0 or pair == NULL or queue_id < 0:
        return
    if queue_id >= pair.flight_slots:
        while slots <= queue_id:
            slots *= 2
        flights = <int64_t*> realloc(pair.flights, slots * sizeof(int64_t))
        if flights == NULL:
            return                          # not counted, not limited
        pair.flights = flights
        while pair.flight_slots < slots:
            flights[pair.flight_slots] = 0
            pair.flight_slots += 1
    pair.flights[queue_id] += count


cdef void flight_end(PopService s, Topic* topic, const uint8_t* group, uint32_t group_length,
                     int32_t queue_id, int64_t pop_ms, int32_t count) noexcept nogil:
    cdef PopPair* pair
    cdef int64_t before
    if s.pops.flight_max < 0 or topic == NULL or pop_ms < s.pops.opened_ms:
        return
    pair = pair_find(&s.pops, topic, group, group_length)
    if pair == NULL or not 0 <= queue_id < pair.flight_slots:
        return
    before = pair.flights[queue_id]
    pair.flights[queue_id] = before - count if before > count else 0
    if before <= s.pops.flight_max or pair.flights[queue_id] > s.pops.flight_max:
        return
    if pair.first != NULL:
        wake_pops(s.pull, pair, queue_id)
    pair = <PopPair*> topic.pop_retry_of
    if pair != NULL and pair.first != NULL:
        wake_pops(s.pull, pair, -1)
