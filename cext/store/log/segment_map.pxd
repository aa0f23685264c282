# Segment map: old segments mapped read-only for the reactor, touched only where they are cached.
#
# A segment is mapped when first looked at. At most `limit` stay mapped: the one unused for longest
# is unmapped. Before a page is given out, mincore() says whether it is in memory, for 64 pages at a
# time; the answer is kept for the reactor's turn. A page that is not in memory is never touched
# here: the reactor must not wait for the disk. One gap remains: a page that is evicted between the
# question and its use in the same turn is read by a page fault. If it cannot be read (a bad disk, a
# file that was cut short), it reads as zeros, which are no record, instead of a SIGBUS that would
# end the broker: cext/c/bus_guard.h.
#
# Example: offset 5,000,000,000 of 1 GiB segments: segment 4 (start 4,294,967,296), byte
# 705,032,704, page 172,127, bit 31 of window 2,689.
#
# Reactor only.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef enum:
    MAPPINGS_MAX = 64
    WINDOWS = 16                # residency answers kept; a power of two
    WINDOW_PAGES = 64           # bits of one answer

cdef struct Mapping:
    int64_t start               # of the segment; -1: slot is free
    uint8_t* base               # owned; segment_bytes long
    uint64_t used_turn

cdef struct Window:
    int64_t start               # physical offset of its first page; -1 none
    uint64_t turn               # the answer is valid in this turn only
    uint64_t resident           # bit i: page i is in memory

cdef struct SegmentMap:
    const char* directory       # borrowed
    int64_t segment_bytes
    int64_t page_bytes
    int32_t limit               # mappings at once, 1 .. MAPPINGS_MAX
    int32_t last                # slot of the last hit
    uint64_t turn
    Mapping mappings[MAPPINGS_MAX]
    Window windows[WINDOWS]
    uint64_t maps               # counters
    uint64_t evictions
    uint64_t residency_calls

cdef void segment_map_init(SegmentMap* map, const char* directory, int64_t segment_bytes,
                           int32_t limit) noexcept nogil
cdef void segment_map_close(SegmentMap* map) noexcept nogil

# Makes all pointers given out before invalid.
cdef inline void segment_map_new_turn(SegmentMap* map) noexcept nogil:
    map.turn += 1

# The mapping of a segment, made if need be; its pages may be in memory or not.
# OK | ABSENT (cannot be mapped now) | CORRUPT (file of the wrong size) | NOT_FOUND
cdef int segment_map_find(SegmentMap* map, int64_t start, uint8_t** base) noexcept nogil

# Bytes of one segment, if all of them are in memory. OK | ABSENT | CORRUPT | NOT_FOUND
cdef int segment_map_view(SegmentMap* map, int64_t start, int64_t offset_in_segment, uint64_t size,
                          const uint8_t** out) noexcept nogil

# The number of pages that read as zeros because they could not be read, in all maps of the process.
cdef uint64_t segment_map_pages_lost() noexcept nogil

# Forgets a segment that leaves the log.
cdef void segment_map_drop(SegmentMap* map, int64_t start) noexcept nogil
