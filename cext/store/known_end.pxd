# Known end: where the log once reached, by its checkpoint: what was synced, or, on the boot that
# wrote the checkpoint, what was written. A log that ends below has lost something.
#
# Recovery writes the checkpoint anew. What it said before is kept in <root>/rmqKnownEnd, in decimal
# digits, until whoever reads recovery's report takes the file away: a start may end before that.
#
# What the store says is whole up to is noted with whoever reads the log, too: the last record of a
# store that was stopped may end in zeros, as somebody sent it (E7 in log/log_scan.pxd). Where
# Apache's broker has stopped cleanly since, its queues say it: the highest record that they name.
#
# Example: synced up to 5000, a new disk under the log: known end 5000, log end 0, at each start.
#
# Calling thread, with the GIL.

from libc.stdint cimport int64_t

from cext.store.log.checkpoint cimport CheckpointFields
from cext.store.log.log_scan cimport LogScan
from cext.store.queues.queue_store cimport QueueStore

# `boot`: 16 bytes, of the kernel that runs.
cdef int64_t find_known_end(str root, const CheckpointFields* checkpoint, bytes boot) except -1
cdef int keep_known_end(str root, int64_t known_end) except -1
# Of the checkpoint and of both files of queue ends: each where a start may begin, on this boot.
cdef int note_persisted_ends(LogScan scan, str root, const CheckpointFields* checkpoint,
                             bytes boot) except -1
# Of a store without an abort file that another broker wrote last. Believed is an entry of which the
# record is there, with its size and checksum. Queue files of a wrong length are mended.
cdef int note_clean_end(LogScan scan, QueueStore queues) except -1
