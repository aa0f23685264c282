"""Use count: what is removed while others still point to it is freed when nobody does any more.

    who keeps the address     use_begin() .. use_end()
    its table takes it out    removed_list_add(): it is marked, and waits in the list
    once a second             removed_list_free(): frees those that nobody uses

Who has the address from a table and uses it within one step of the reactor counts nothing: nothing
is freed in the middle of a step. In debug builds what is freed is overwritten first.

Example: a topic is deleted while two pulls read from the disk for it: uses 2, removed. Both are
refused when they come back: uses 0, and the next second it is gone.

One thread; no allocation.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.check cimport check

ctypedef void (*UseDestroy)(UseCount* object) noexcept nogil

cdef struct UseCount:               # first field of what it counts for
    int32_t uses
    bint removed                    # no table has it any more
    UseCount* next_removed
    UseDestroy destroy              # set when it is removed

cdef struct RemovedList:
    UseCount* first
    int64_t waiting                 # length of the list
    uint64_t freed                  # ever

cdef inline void use_begin(UseCount* object) noexcept nogil:
    object.uses += 1

cdef inline void use_end(UseCount* object) noexcept nogil:
    check(object.uses > 0, b"a use count: no more uses end than were begun", object.uses,
          object.removed)
    object.uses -= 1

cdef void removed_list_add(RemovedList* removed, UseCount* object,
                           UseDestroy destroy) noexcept nogil
# Between two steps of the thread that owns the objects. `destroy` may end uses of others.
cdef void removed_list_free(RemovedList* removed) noexcept nogil
# At the end: all of them, used or not.
cdef void removed_list_close(RemovedList* removed) noexcept nogil
# free(), and in debug builds no byte of it is what it was.
cdef void free_removed(void* memory, uint64_t bytes) noexcept nogil
