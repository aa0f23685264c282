"""SqlFilter: one checked SQL92 program, shared by the subscriptions and pulls that use it.

    subscriptions      hold the filter their heartbeat brought
    ExpressionTable    expression text -> filter, for pulls that bring their expression along
    pulls              hold it from the request to the answer, so that a newer subscription does
                       not take it away under them

A filter with a `function` lets what passes its program be seen by a function of the broker's owner,
which runs in another process: such pulls are answered by the control thread.

Reactor only: the count needs no atomic.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.memory.name_map cimport NameMap

cdef enum:
    EXPRESSION_BYTES_MAX = 65536    # of one that a pull brings, as it lies in the header
    EXPRESSIONS_MAX = 1024      # beyond it the table is emptied: control fills it again

cdef struct SqlFilter:
    int64_t references          # freed by the last sql_filter_drop
    int32_t function            # control's number of the function that decides too, 0: none
    uint64_t length
    uint8_t* program            # owned, follows the struct

cdef struct ExpressionTable:
    NameMap filters             # expression -> SqlFilter*, one reference each

# With one reference, the caller's; NULL when memory is out or the bytes are no program.
cdef SqlFilter* sql_filter_make(const uint8_t* program, uint64_t length,
                                int32_t function) noexcept nogil
cdef void sql_filter_drop(SqlFilter* filter) noexcept nogil         # NULL is allowed

cdef inline SqlFilter* sql_filter_share(SqlFilter* filter) noexcept nogil:
    if filter != NULL:
        filter.references += 1
    return filter

cdef int expressions_open(ExpressionTable* table) noexcept nogil
cdef void expressions_close(ExpressionTable* table) noexcept nogil
# Takes over the caller's reference, also when it fails: OK | POOL_EMPTY.
cdef int expression_put(ExpressionTable* table, const uint8_t* text, uint32_t length,
                        SqlFilter* filter) noexcept nogil
cdef void expressions_clear(ExpressionTable* table) noexcept nogil
# Borrowed; NULL when control has not compiled it yet.
cdef SqlFilter* expression_find(ExpressionTable* table, const uint8_t* text,
                                uint32_t length) noexcept nogil
