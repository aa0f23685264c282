"""Check points of one revive queue that wait for their time. See revive_ring.pxd."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from cext.base.check cimport check, debug_check
from cext.memory.use_count cimport use_begin, use_end

cdef enum:
    FIRST_CAPACITY = 256


cdef inline CheckPoint* numbered(const ReviveQueue* q, uint64_t number) noexcept nogil:
    return &q.ring[number & (q.capacity - 1)]


# ------------------------------------------------------------------- by key

cdef inline uint32_t bucket_of(const ReviveQueue* q, const PopPair* pair, int32_t queue_id,
                               int64_t start_offset, int64_t pop_ms) noexcept nogil:
    cdef uint64_t hash = <uint64_t> <size_t> pair
    hash = (hash ^ <uint64_t> start_offset) * <uint64_t> 0x9E3779B97F4A7C15
    hash = (hash ^ <uint64_t> pop_ms ^ <uint64_t> queue_id << 40) * <uint64_t> 0x9E3779B97F4A7C15
    return <uint32_t> (hash >> 33) & (q.capacity - 1)


cdef inline int32_t* chain_of(ReviveQueue* q, const CheckPoint* point) noexcept nogil:
    return &q.buckets[bucket_of(q, point.pair, point.queue_id, point.start_offset, point.pop_ms)]


cdef inline void chain(ReviveQueue* q, uint64_t number) noexcept nogil:
    cdef CheckPoint* point = numbered(q, number)
    cdef int32_t* first = chain_of(q, point)
    point.next = first[0]
    first[0] = <int32_t> (number & (q.capacity - 1))


cdef void unchain(ReviveQueue* q, uint64_t number) noexcept nogil:
    cdef int32_t at = <int32_t> (number & (q.capacity - 1))
    cdef int32_t* link = chain_of(q, &q.ring[at])
    while link[0] >= 0 and link[0] != at:
        link = &q.ring[link[0]].next
    check(link[0] == at, b"revival: a check point that ends is in its bucket", at, link[0])
    link[0] = q.ring[at].next


cdef CheckPoint* ring_find(ReviveQueue* q, const PopPair* pair, int32_t queue_id,
                           int64_t start_offset, int64_t pop_ms) noexcept nogil:
    cdef CheckPoint* point
    cdef int32_t at
    if q.capacity == 0:
        return NULL
    at = q.buckets[bucket_of(q, pair, queue_id, start_offset, pop_ms)]
    while at >= 0:
        point = &q.ring[at]
        if (point.pair == pair and point.queue_id == queue_id
                and point.start_offset == start_offset and point.pop_ms == pop_ms):
            return point
        at = point.next
    return NULL


# ------------------------------------------------------------------- by time

cdef inline bint is_before(const ReviveQueue* q, uint32_t a, uint32_t b) noexcept nogil:
    """Of two whose time is over the older one comes first: messages come again in their order, and
    a full ring gets free places."""
    cdef int64_t ms_of_a = numbered(q, q.heap[a]).revive_ms
    cdef int64_t ms_of_b = numbered(q, q.heap[b]).revive_ms
    return ms_of_a < ms_of_b or (ms_of_a == ms_of_b and q.heap[a] < q.heap[b])


cdef inline void swap(ReviveQueue* q, uint32_t a, uint32_t b) noexcept nogil:
    cdef uint64_t number = q.heap[a]
    q.heap[a] = q.heap[b]
    q.heap[b] = number


cdef bint is_next(const ReviveQueue* q) noexcept nogil:
    """Whether the one on top comes before those below it."""
    return ((q.heap_count < 2 or is_before(q, 0, 1))
            and (q.heap_count < 3 or is_before(q, 0, 2)))


cdef void heap_add(ReviveQueue* q, uint64_t number) noexcept nogil:
    cdef uint32_t at = q.heap_count
    q.heap[at] = number
    q.heap_count += 1
    while at > 0 and is_before(q, at, (at - 1) // 2):
        swap(q, at, (at - 1) // 2)
        at = (at - 1) // 2


cdef void heap_drop_first(ReviveQueue* q) noexcept nogil:
    cdef uint32_t at = 0, least
    q.heap_count -= 1
    q.heap[0] = q.heap[q.heap_count]
    while True:
        least = 2 * at + 1
        if least >= q.heap_count:
            return
        if least + 1 < q.heap_count and is_before(q, least + 1, least):
            least += 1
        if is_before(q, at, least):
            return
        swap(q, at, least)
        at = least


# ------------------------------------------------------------------- the ring

cdef bint grow(ReviveQueue* q) noexcept nogil:
    cdef uint32_t capacity = q.capacity * 2 if q.capacity > 0 else FIRST_CAPACITY
    cdef uint64_t number
    cdef CheckPoint* ring
    cdef int32_t* buckets
    cdef uint64_t* heap
    if capacity > CHECK_POINTS_MAX:
        return False
    ring = <CheckPoint*> malloc(capacity * sizeof(CheckPoint))
    buckets = <int32_t*> malloc(capacity * sizeof(int32_t))
    heap = <uint64_t*> malloc(capacity * sizeof(uint64_t))
    if ring == NULL or buckets == NULL or heap == NULL:
        free(ring)
        free(buckets)
        free(heap)
        return False
    for number in range(q.head, q.tail):
        ring[number & (capacity - 1)] = numbered(q, number)[0]
    memset(buckets, 0xFF, capacity * sizeof(int32_t))
    if q.heap_count > 0:
        memcpy(heap, q.heap, q.heap_count * sizeof(uint64_t))
    free(q.ring)
    free(q.buckets)
    free(q.heap)
    q.ring = ring
    q.buckets = buckets
    q.heap = heap
    q.capacity = capacity
    for number in range(q.head, q.tail):
        if not numbered(q, number).finished:
            chain(q, number)
    return True


cdef inline void check_counts(const ReviveQueue* q) noexcept nogil:
    """The heap has all unfinished ones of the ring, and the oldest of the ring is one of them."""
    check(q.tail - q.head <= q.capacity,
          b"revival: no more check points are kept than the ring has places", q.tail - q.head,
          q.capacity)
    check(q.heap_count <= q.tail - q.head,
          b"revival: no more check points wait for their time than are kept", q.heap_count,
          q.tail - q.head)
    check((q.heap_count == 0) == (q.head == q.tail),
          b"revival: check points are kept while one waits for its time", q.heap_count,
          q.tail - q.head)


cdef CheckPoint* ring_add(ReviveQueue* q, PopPair* pair, int32_t queue_id, int64_t start_offset,
                          int64_t pop_ms, int64_t revive_ms) noexcept nogil:
    cdef CheckPoint* point
    check_counts(q)
    if q.tail - q.head == q.capacity and not grow(q):
        return NULL
    point = numbered(q, q.tail)
    memset(point, 0, sizeof(CheckPoint))
    point.pair = pair
    use_begin(&pair.use)
    point.queue_id = queue_id
    point.start_offset = start_offset
    point.pop_ms = pop_ms
    point.revive_ms = revive_ms
    chain(q, q.tail)
    heap_add(q, q.tail)
    q.tail += 1
    return point


cdef CheckPoint* ring_next(ReviveQueue* q) noexcept nogil:
    return numbered(q, q.heap[0]) if q.heap_count > 0 else NULL


cdef void ring_finish_next(ReviveQueue* q) noexcept nogil:
    cdef uint64_t number
    cdef CheckPoint* point
    check(q.heap_count > 0, b"revival: no more check points end than wait for their time",
          q.heap_count, q.tail - q.head)
    number = q.heap[0]
    check(q.head <= number < q.tail, b"revival: a check point that ends is kept", number, q.head)
    point = numbered(q, number)
    check(not point.finished, b"revival: a check point ends once", number, q.head)
    debug_check(is_next(q), b"revival: the check point that ends is due before all others",
                point.revive_ms, q.heap_count)
    unchain(q, number)
    point.finished = True
    use_end(&point.pair.use)
    heap_drop_first(q)
    while q.head != q.tail and numbered(q, q.head).finished:
        q.head += 1
    check_counts(q)


cdef int64_t ring_oldest(const ReviveQueue* q, int64_t otherwise) noexcept nogil:
    return numbered(q, q.head).revive_offset if q.head != q.tail else otherwise
