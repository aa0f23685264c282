"""Use count: an object that is removed while others still point to it is freed after its last use.

    code that keeps its address     calls use_begin(), and use_end() when it is done
    the table that removes it       calls removed_list_add(): it is marked, and waits in the list
    once a second                   removed_list_free() frees the objects that nobody uses

Code that takes an address from a table and uses it within one step of the reactor counts nothing,
since nothing is freed in the middle of a step. In debug builds an object is overwritten before it
is freed.

Example: a topic is deleted while two pulls read from the disk for it: uses is 2, and it is marked
as removed. Both pulls are refused when their reads are done: uses is 0, and within a second the
topic is freed.

One thread; no allocation.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.check cimport check

ctypedef void (*UseDestroy)(UseCount* object) noexcept nogil

cdef struct UseCount:               # the first field of the object whose uses it counts
    int32_t uses
    bint removed                    # the object is in no table any more
    UseCount* next_removed
    UseDestroy destroy              # set when it is removed

cdef struct RemovedList:
    UseCount* first
    int64_t waiting                 # length of the list
    uint64_t freed                  # in all

cdef inline void use_begin(UseCount* object) noexcept nogil:
    object.uses += 1

cdef inline void use_end(UseCount* object) noexcept nogil:
    check(object.uses > 0, b"a use count: no more uses end than were begun", object.uses,
          object.removed)
    object.uses -= 1

cdef void removed_list_add(RemovedList* removed, UseCount* object,
                           UseDestroy destroy) noexcept nogil
# Called between two steps of the thread that owns the objects. `destroy` may end uses of other
# objects.
cdef void removed_list_free(RemovedList* removed) noexcept nogil
# Called at the end: destroys all of them, used or not.
cdef void removed_list_close(RemovedList* removed) noexcept nogil
# Calls free(); debug builds overwrite all bytes first.
cdef void free_removed(void* memory, uint64_t bytes) noexcept nogil
