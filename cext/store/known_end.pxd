# Known end: where the log once ended, according to its checkpoint: what was synced or, on the boot
# that wrote the checkpoint, what was written. A log that ends below its known end has lost bytes.
#
# Recovery writes the checkpoint anew. The known end is therefore kept in <root>/rmqKnownEnd, in
# decimal digits, until the reader of recovery's report removes that file, because a start may fail
# before the report is read.
#
# The scan of the log is told as well up to where the store's files say that the log is whole,
# because the last record of a stopped store may end in zeros that a client sent (E7 in
# log/log_scan.pxd). If Apache's broker has since stopped cleanly, its queues say it: the end of the
# highest record that they name.
#
# Example: the log was synced up to 5000 and its disk was replaced: known end 5000, log end 0, at
# each start.
#
# Calling thread, with the GIL.

from libc.stdint cimport int64_t

from cext.store.log.checkpoint cimport CheckpointFields
from cext.store.log.log_scan cimport LogScan
from cext.store.queues.queue_store cimport QueueStore

# `boot`, here and below: the 16 bytes of the running kernel's boot id.
# Whether a file with `boot_id` was written on this boot. False when this boot's id is not known.
cdef bint is_boot(const void* boot_id, bytes boot) except -1
cdef int64_t find_known_end(str root, const CheckpointFields* checkpoint, bytes boot) except -1
cdef int keep_known_end(str root, int64_t known_end) except -1
# Tells the scan the offsets in the checkpoint and in both files of queue ends that can be believed
# on this boot.
cdef int note_persisted_ends(LogScan scan, str root, const CheckpointFields* checkpoint,
                             bytes boot) except -1
# The same for a store without an abort file that another broker wrote last. An entry is believed
# when its record is there, with its size and checksum. Queue files of a wrong length are mended.
cdef int note_clean_end(LogScan scan, QueueStore queues) except -1
