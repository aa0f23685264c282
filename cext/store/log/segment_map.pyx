"""Old segments mapped read-only, touched only where they are in memory. See segment_map.pxd."""

from libc.string cimport memset

from cext.base.status cimport Status
from cext.base.sysio cimport close_file
from cext.store.log.segment cimport segment_open

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* at, size_t size, int protection, int flags, int fd, long offset)
    int munmap(void* at, size_t size)
    int mincore(void* at, size_t size, unsigned char* out)
    enum: PROT_READ, MAP_SHARED
    void* MAP_FAILED

cdef extern from "bus_guard.h" nogil:
    bint rmq_guard_add(const void* base, uint64_t size)
    void rmq_guard_remove(const void* base)
    uint64_t rmq_guard_lost()

cdef extern from "<unistd.h>" nogil:
    long sysconf(int name)
    enum: _SC_PAGESIZE


cdef void segment_map_init(SegmentMap* map, const char* directory, int64_t segment_bytes,
                           int32_t limit) noexcept nogil:
    cdef int i
    memset(map, 0, sizeof(SegmentMap))
    map.directory = directory
    map.segment_bytes = segment_bytes
    map.page_bytes = sysconf(_SC_PAGESIZE)
    map.limit = 1 if limit < 1 else (MAPPINGS_MAX if limit > MAPPINGS_MAX else limit)
    map.turn = 1
    for i in range(MAPPINGS_MAX):
        map.mappings[i].start = -1
    for i in range(WINDOWS):
        map.windows[i].start = -1


cdef void unmap(SegmentMap* map, Mapping* slot) noexcept nogil:
    if slot.start >= 0:
        rmq_guard_remove(slot.base)
        munmap(slot.base, <size_t>map.segment_bytes)
    slot.start = -1
    slot.base = NULL


cdef void segment_map_close(SegmentMap* map) noexcept nogil:
    cdef int i
    for i in range(MAPPINGS_MAX):
        unmap(map, &map.mappings[i])


cdef int slot_to_use(SegmentMap* map) noexcept nogil:
    """A free slot, or the one unused for longest; -1 when all were used in this turn."""
    cdef int i
    cdef int oldest = -1
    for i in range(map.limit):
        if map.mappings[i].start < 0:
            return i
        if map.mappings[i].used_turn < map.turn and (
                oldest < 0 or map.mappings[i].used_turn < map.mappings[oldest].used_turn):
            oldest = i
    return oldest


cdef int map_segment(SegmentMap* map, int64_t start, int slot) noexcept nogil:
    cdef int error
    cdef void* base
    cdef int fd = segment_open(map.directory, start, map.segment_bytes, False, &error)
    if fd < 0:
        return Status.ABSENT if fd == Status.IO_ERROR else fd
    base = mmap(NULL, <size_t>map.segment_bytes, PROT_READ, MAP_SHARED, fd, 0)
    close_file(fd)           # the mapping keeps the file
    if base == MAP_FAILED:
        return Status.ABSENT
    if map.mappings[slot].start >= 0:
        map.evictions += 1
        unmap(map, &map.mappings[slot])
    rmq_guard_add(base, <uint64_t>map.segment_bytes)     # if the table is full it is not guarded
    map.maps += 1
    map.mappings[slot].start = start
    map.mappings[slot].base = <uint8_t*>base
    return Status.OK


cdef int segment_map_find(SegmentMap* map, int64_t start, uint8_t** base) noexcept nogil:
    cdef int slot = map.last
    cdef int status
    if map.mappings[slot].start != start:
        for slot in range(map.limit):
            if map.mappings[slot].start == start:
                break
        else:
            slot = slot_to_use(map)
            if slot < 0:
                return Status.ABSENT
            status = map_segment(map, start, slot)
            if status != Status.OK:
                return status
        map.last = slot
    map.mappings[slot].used_turn = map.turn
    base[0] = map.mappings[slot].base
    return Status.OK


cdef uint64_t ask_residency(SegmentMap* map, uint8_t* base, int64_t at) noexcept nogil:
    """Bit i says whether page i, counted from byte `at` of the segment (a multiple of the window),
    is in memory."""
    cdef unsigned char pages[WINDOW_PAGES]
    cdef int64_t bytes = map.page_bytes * WINDOW_PAGES
    cdef int64_t count
    cdef uint64_t resident = 0
    cdef int i
    if bytes > map.segment_bytes - at:
        bytes = map.segment_bytes - at
    count = (bytes + map.page_bytes - 1) // map.page_bytes
    map.residency_calls += 1
    if mincore(base + at, <size_t>bytes, pages) != 0:
        return 0
    for i in range(<int>count):
        resident |= <uint64_t>(pages[i] & 1) << i
    return resident


cdef inline bint is_resident(SegmentMap* map, uint8_t* base, int64_t start,
                             int64_t page) noexcept nogil:
    cdef int64_t number = page // WINDOW_PAGES
    cdef int64_t window_start = start + number * WINDOW_PAGES * map.page_bytes
    # Windows of two segments may share a slot; the physical offset in `start` tells them apart.
    cdef Window* window = &map.windows[(start // map.segment_bytes + number) & (WINDOWS - 1)]
    if window.start != window_start or window.turn != map.turn:
        window.resident = ask_residency(map, base, number * WINDOW_PAGES * map.page_bytes)
        window.start = window_start
        window.turn = map.turn
    return (window.resident >> (page % WINDOW_PAGES)) & 1


cdef int segment_map_view(SegmentMap* map, int64_t start, int64_t offset_in_segment, uint64_t size,
                          const uint8_t** out) noexcept nogil:
    cdef uint8_t* base
    cdef int64_t page = offset_in_segment // map.page_bytes
    cdef int64_t last = (offset_in_segment + <int64_t>size - 1) // map.page_bytes
    cdef int status = segment_map_find(map, start, &base)
    if status != Status.OK:
        return status
    while page <= last:
        if not is_resident(map, base, start, page):
            return Status.ABSENT
        page += 1
    out[0] = base + offset_in_segment
    return Status.OK


cdef uint64_t segment_map_pages_lost() noexcept nogil:
    return rmq_guard_lost()


cdef void segment_map_drop(SegmentMap* map, int64_t start) noexcept nogil:
    cdef int i
    for i in range(MAPPINGS_MAX):
        if map.mappings[i].start == start:
            unmap(map, &map.mappings[i])
    for i in range(WINDOWS):
        if start <= map.windows[i].start < start + map.segment_bytes:
            map.windows[i].start = -1
