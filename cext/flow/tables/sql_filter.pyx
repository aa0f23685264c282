"""SqlFilter and the table of expressions. See sql_filter.pxd."""
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from cext.base.status cimport OK, POOL_EMPTY
from cext.memory.name_map cimport (
    NameEntry,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_open,
    name_map_put,
    name_map_remove,
)
from cext.wire.sql_program cimport sql_program_check


cdef SqlFilter* sql_filter_make(const uint8_t* program, uint64_t length,
                                int32_t function) noexcept nogil:
    cdef SqlFilter* filter
    if sql_program_check(program, length) != OK:
        return NULL
    filter = <SqlFilter*> malloc(sizeof(SqlFilter) + length)
    if filter == NULL:
        return NULL
    filter.references = 1
    filter.function = function
    filter.length = length
    filter.program = <uint8_t*> (filter + 1)
    memcpy(filter.program, program, length)
    return filter


cdef void sql_filter_drop(SqlFilter* filter) noexcept nogil:
    if filter == NULL:
        return
    filter.references -= 1
    if filter.references == 0:
        free(filter)


cdef int expressions_open(ExpressionTable* table) noexcept nogil:
    return name_map_open(&table.filters)


cdef void expressions_clear(ExpressionTable* table) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = name_map_next(&table.filters, 0, &entry)
    while cursor != 0:
        sql_filter_drop(<SqlFilter*> name_map_remove(&table.filters, entry.name, entry.length))
        cursor = name_map_next(&table.filters, cursor, &entry)


cdef void expressions_close(ExpressionTable* table) noexcept nogil:
    if table.filters.slots != NULL:
        expressions_clear(table)
        name_map_close(&table.filters)


cdef int expression_put(ExpressionTable* table, const uint8_t* text, uint32_t length,
                        SqlFilter* filter) noexcept nogil:
    cdef SqlFilter* before = <SqlFilter*> name_map_find(&table.filters, text, length)
    if before == NULL and table.filters.live >= EXPRESSIONS_MAX:
        expressions_clear(table)
    if name_map_put(&table.filters, text, length, filter) != OK:
        sql_filter_drop(filter)
        return POOL_EMPTY
    sql_filter_drop(before)
    return OK


cdef SqlFilter* expression_find(ExpressionTable* table, const uint8_t* text,
                                uint32_t length) noexcept nogil:
    return <SqlFilter*> name_map_find(&table.filters, text, length)
