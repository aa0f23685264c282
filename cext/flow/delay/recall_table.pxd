"""Recall table: names of timed messages that were recalled, for a second after they were due.

A name is the topic, a plus sign and the UNIQ_KEY, kept as two 64-bit hashes. The table grows as
needed, which is not on the way of ordinary messages; it is emptied when all in it are over.
"""
from libc.stdint cimport int64_t

from cext.flow.delay.timer cimport RecallTable
from cext.wire.text cimport Text

cdef enum:
    RECALL_MS = 1000            # a deletion counts for messages due until so much later
    RECALLS_MAX = 8388608       # at once

# Takes the name of a deletion; False when there is no room.
cdef bint recall_add(RecallTable* table, const Text* name, int64_t due_ms) noexcept nogil
# Whether the message of this topic and key, due at `due_ms`, was recalled.
cdef bint recall_has(const RecallTable* table, const Text* topic, const Text* key,
                     int64_t due_ms) noexcept nogil
# Once a turn: forgets them all when the last is over.
cdef void recall_expire(RecallTable* table, int64_t delivered_ms) noexcept nogil
cdef void recall_close(RecallTable* table) noexcept nogil
