"""Recall table: names of recalled timed messages, kept until a second after they were due.

A name is the topic, a plus sign and the UNIQ_KEY; it is kept as two 64-bit hashes. The table grows
as needed, which costs ordinary messages nothing; it is emptied when all names in it are over.

Everything in it is in the timers' files, or gets there with the next seal: from them, a start makes
the table anew.
"""
from libc.stdint cimport int64_t

from cext.flow.delay.timer cimport RecallTable
from cext.store.timers.timer_heap cimport TimerEntry
from cext.store.timers.timer_keeper cimport TimerKeeper
from cext.wire.text cimport Text

cdef enum:
    RECALLS_MAX = 8388608       # at once

# Adds the name in a deletion; False when there is no room.
cdef bint recall_add(RecallTable* table, const Text* name,
                     const TimerEntry* deletion) noexcept nogil
# Whether the message of this topic and key, due at `due_ms`, was recalled.
cdef bint recall_has(const RecallTable* table, const Text* topic, const Text* key,
                     int64_t due_ms) noexcept nogil
# Before a seal: adds the deletions that are in no file yet.
cdef void recall_seal(RecallTable* table, TimerKeeper keeper) noexcept nogil
# Once a turn: forgets all names when the last is over. `settled_ms`: messages due before it are
# delivered, and that is on the disk. So when a power cut undoes a delivery, the names are still in
# a file of the timers.
cdef void recall_expire(RecallTable* table, int64_t settled_ms) noexcept nogil
cdef void recall_close(RecallTable* table) noexcept nogil
