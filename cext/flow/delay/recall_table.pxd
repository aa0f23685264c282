"""Recall table: names of timed messages that were recalled, for a second after they were due.

A name is the topic, a plus sign and the UNIQ_KEY, kept as two 64-bit hashes. The table grows as
needed, which is not on the way of ordinary messages; it is emptied when all in it are over.

The files of timers have what is in it, or the next seal brings it there: a start makes it anew.
"""
from libc.stdint cimport int64_t

from cext.flow.delay.timer cimport RecallTable
from cext.store.timers.timer_heap cimport TimerEntry
from cext.store.timers.timer_keeper cimport TimerKeeper
from cext.wire.text cimport Text

cdef enum:
    RECALLS_MAX = 8388608       # at once

# Takes the name of a deletion; False when there is no room.
cdef bint recall_add(RecallTable* table, const Text* name,
                     const TimerEntry* deletion) noexcept nogil
# Whether the message of this topic and key, due at `due_ms`, was recalled.
cdef bint recall_has(const RecallTable* table, const Text* topic, const Text* key,
                     int64_t due_ms) noexcept nogil
# Before a seal: what is in no file yet goes along.
cdef void recall_seal(RecallTable* table, TimerKeeper keeper) noexcept nogil
# Once a turn: forgets them all when the last is over. What is due before `settled_ms` is delivered,
# and that is on the disk: what a power cut takes back finds them in a file of the timers.
cdef void recall_expire(RecallTable* table, int64_t settled_ms) noexcept nogil
cdef void recall_close(RecallTable* table) noexcept nogil
