"""Transaction service. See transaction_service.pxd."""
cimport cython
from libc.stdint cimport uint8_t, uint64_t

from cext.base.status cimport OK
from cext.flow.context.service cimport no_memory
from cext.flow.transaction.check_table cimport check_table_close, check_table_open
from cext.flow.transaction.open_halves cimport MOVES, OP_BYTES_MAX, WINDOW_BITS, HalfMove
from cext.memory.arena cimport Arena, arena_page_bytes, arena_take_pages


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class TransactionService:
    cdef uint64_t arena_bytes(self, dict given) except? 0:
        return (arena_page_bytes(WINDOW_BITS // 8)
                + arena_page_bytes(OP_BYTES_MAX)
                + arena_page_bytes(MOVES * sizeof(HalfMove)))

    cdef int open(self, Arena* arena, dict given) except -1:
        cdef OpenHalves* x = &self.halves
        x.ended = <uint64_t*> arena_take_pages(arena, WINDOW_BITS // 8)
        x.ops = <uint8_t*> arena_take_pages(arena, OP_BYTES_MAX)
        x.moves = <HalfMove*> arena_take_pages(arena, MOVES * sizeof(HalfMove))
        if (x.ended == NULL or x.ops == NULL or x.moves == NULL
                or check_table_open(&self.checks) != OK):
            no_memory("the transactions")
        return 0

    cdef void close(self) noexcept:
        check_table_close(&self.checks)

    cdef dict stats(self):
        return {
            "transactions_committed": self.halves.committed,
            "transactions_rolled_back": self.halves.rolled_back,
            "transactions_repeated": self.halves.repeated,
            "transactions_moved": self.halves.moved,
            "transactions_asked": self.checks.asked,
            "transactions_unasked": self.checks.unasked,
            "half_messages_first": self.halves.first,
            "half_messages_ended_out_of_order": self.halves.ended_ahead,
        }
