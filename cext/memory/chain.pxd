"""Chain: an intrusive list, whose entries lie inside the objects they link. They join at its end.

A list is one pointer, to its first entry. `previous` of the first entry is the last one, and `next`
of the last one is NULL. So both ends are reached at once, and an empty list costs only 8 bytes.

    chain_join(&queue_waiters, &job.line, job)      first in, first out
    entry = queue_waiters; while entry != NULL: job = entry.owner; entry = entry.next
    chain_leave(&queue_waiters, &job.line)          it must be in this list

Example: joined a, b, c; left b: first is a, a.next c, c.next NULL, a.previous c.

One thread; no allocation. Debug builds check that both ends fit together.
"""

from cext.base.check cimport debug_check

cdef struct ChainEntry:
    ChainEntry* next            # NULL: the last one
    ChainEntry* previous        # in the first one: the last one
    void* owner                 # the object in which the entry lies

cdef inline bint chain_ends_fit(ChainEntry* first) noexcept nogil:
    return first == NULL or (first.previous != NULL and first.previous.next == NULL)

cdef inline void chain_join(ChainEntry** first, ChainEntry* entry, void* owner) noexcept nogil:
    debug_check(chain_ends_fit(first[0]), b"a chain: its last entry has none behind it",
                first[0] == NULL, entry == first[0])
    entry.owner = owner
    entry.next = NULL
    if first[0] == NULL:
        entry.previous = entry
        first[0] = entry
        return
    entry.previous = first[0].previous
    first[0].previous.next = entry
    first[0].previous = entry

cdef inline void chain_leave(ChainEntry** first, ChainEntry* entry) noexcept nogil:
    debug_check(first[0] != NULL and (entry == first[0] or entry.previous.next == entry),
                b"a chain: an entry that leaves is in it", entry == first[0], first[0] == NULL)
    if entry == first[0]:
        first[0] = entry.next
    else:
        entry.previous.next = entry.next
    if entry.next != NULL:
        entry.next.previous = entry.previous
    elif first[0] != NULL:
        first[0].previous = entry.previous
    debug_check(chain_ends_fit(first[0]), b"a chain: its last entry has none behind it",
                first[0] == NULL, entry.next == NULL)
