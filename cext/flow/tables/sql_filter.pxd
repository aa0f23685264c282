"""SqlFilter: one checked SQL92 program, shared by the subscriptions and pulls that use it.

    subscriptions      hold the filter that their heartbeat brought
    ExpressionTable    expression text -> filter, for pulls that bring their expression along
    pulls              hold it from the request to the answer, so that a newer subscription does
                       not free it meanwhile

When a filter has a `function`, messages that pass its program must also pass a function of the
broker's owner, which runs in another process; the control thread answers such pulls.

Reactor only: the count needs no atomic.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.memory.name_map cimport NameMap

cdef enum:
    EXPRESSION_BYTES_MAX = 65536    # of an expression that a pull brings, as it is in the header
    EXPRESSIONS_MAX = 1024      # when there are more, the table is emptied and filled anew

cdef struct SqlFilter:
    int64_t references          # the last sql_filter_drop() frees the filter
    int32_t function            # control's number of the owner's function, 0: none
    uint64_t length
    uint8_t* program            # owned, follows the struct

cdef struct ExpressionTable:
    NameMap filters             # expression -> SqlFilter*, one reference each

# A filter with one reference, which is the caller's; NULL: no memory, or the bytes are no program.
cdef SqlFilter* sql_filter_make(const uint8_t* program, uint64_t length,
                                int32_t function) noexcept nogil
cdef void sql_filter_drop(SqlFilter* filter) noexcept nogil         # NULL is allowed

cdef inline SqlFilter* sql_filter_share(SqlFilter* filter) noexcept nogil:
    if filter != NULL:
        filter.references += 1
    return filter

cdef int expressions_open(ExpressionTable* table) noexcept nogil
cdef void expressions_close(ExpressionTable* table) noexcept nogil
# Takes over the caller's reference, even when it fails: OK | POOL_EMPTY.
cdef int expression_put(ExpressionTable* table, const uint8_t* text, uint32_t length,
                        SqlFilter* filter) noexcept nogil
cdef void expressions_clear(ExpressionTable* table) noexcept nogil
# Borrowed; NULL when control has not compiled it yet.
cdef SqlFilter* expression_find(ExpressionTable* table, const uint8_t* text,
                                uint32_t length) noexcept nogil
