"""Use counts. See use_count.pxd."""
from libc.stdlib cimport free
from libc.string cimport memset

from cext.base.check cimport DEBUG_BUILD

cdef enum:
    FREED_BYTE = 0xDD


cdef void removed_list_add(RemovedList* removed, UseCount* object,
                           UseDestroy destroy) noexcept nogil:
    check(not object.removed, b"a use count: what is removed was in its table", object.uses,
          removed.waiting)
    object.removed = True
    object.destroy = destroy
    object.next_removed = removed.first
    removed.first = object
    removed.waiting += 1


cdef void removed_list_free(RemovedList* removed) noexcept nogil:
    cdef UseCount** link = &removed.first
    cdef UseCount* object
    while link[0] != NULL:
        object = link[0]
        if object.uses > 0:
            link = &object.next_removed
            continue
        link[0] = object.next_removed
        removed.waiting -= 1
        removed.freed += 1
        object.destroy(object)


cdef void removed_list_close(RemovedList* removed) noexcept nogil:
    cdef UseCount* object
    while removed.first != NULL:
        object = removed.first
        removed.first = object.next_removed
        object.destroy(object)
    removed.waiting = 0


cdef void free_removed(void* memory, uint64_t bytes) noexcept nogil:
    if DEBUG_BUILD and memory != NULL:
        memset(memory, FREED_BYTE, bytes)
    free(memory)
