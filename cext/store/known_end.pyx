"""Known end: where the log once ended, according to the files of a store. See known_end.pxd."""
import os
from pathlib import Path

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp, memset

from cext.base.status cimport Status
from cext.store.log.checkpoint cimport CheckpointFields
from cext.store.log.log_scan cimport LogScan
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_ends cimport EndsHeader, ends_header
from cext.store.queues.queue_files cimport QueueName, name_of
from cext.store.queues.queue_scan cimport QueueState, scan_queue
from cext.store.queues.queue_store cimport QueueStore
from rmq.base import atomic_file

NAME = "rmqKnownEnd"
ENDS_NAME, SYNCED_ENDS_NAME = "queueEnds", "queueEnds.synced"


cdef bint is_boot(const void* boot_id, bytes boot) except -1:
    return memcmp(boot_id, <const char*> boot, 16) == 0 and boot != bytes(16)


cdef int64_t find_known_end(str root, const CheckpointFields* checkpoint, bytes boot) except -1:
    cdef bint same_boot = is_boot(checkpoint.boot_id, boot)
    cdef int64_t kept = 0
    try:
        with open(os.path.join(root, NAME), "rb") as file:
            kept = max(0, int(file.read(18)))
    except (OSError, ValueError):
        kept = 0
    if not checkpoint.own_valid:
        return kept
    return max(kept, checkpoint.persisted_offset if same_boot else checkpoint.synced_offset)


cdef int keep_known_end(str root, int64_t known_end) except -1:
    path, content = Path(root, NAME), b"%d" % known_end
    if atomic_file.read(path) != content:
        atomic_file.replace(path, content)
    return 0


cdef int note_persisted_ends(LogScan scan, str root, const CheckpointFields* checkpoint,
                             bytes boot) except -1:
    cdef EndsHeader header
    cdef bytes data
    if checkpoint.own_valid:
        scan.note_persisted_end(checkpoint.synced_offset)
        if is_boot(checkpoint.boot_id, boot):
            scan.note_persisted_end(checkpoint.persisted_offset)
    for name in (ENDS_NAME, SYNCED_ENDS_NAME):
        try:
            with open(os.path.join(root, name), "rb") as file:
                data = file.read()
        except OSError:
            continue
        if (ends_header(<const uint8_t*> <const char*> data, len(data), &header)
                and (name == SYNCED_ENDS_NAME or is_boot(header.boot_id, boot))):
            scan.note_persisted_end(header.log_offset)
    return 0


cdef int note_clean_end(LogScan scan, QueueStore queues) except -1:
    cdef int64_t i, end = -1, anchor = -1
    cdef const Queue* queue
    cdef QueueName name
    cdef QueueState found
    cdef RecordView view
    for i in range(queues.queue_top):
        queue = queues.queues[i]
        if queue == NULL:
            continue
        name = name_of(queue)
        memset(&found, 0, sizeof(found))
        # A queue that cannot be searched is skipped: what is wrong is reported where it is used.
        if scan_queue(queues.sync_files, &name, &found) != Status.OK or found.damaged:
            continue
        if found.last_physical >= 0 and found.last_physical + found.last_size > end:
            end, anchor = found.last_physical + found.last_size, found.last_physical
    if (anchor >= 0 and scan.peek(anchor, &view) == Status.OK
            and anchor + <int64_t> view.total_bytes == end):
        scan.note_persisted_end(end)
    return 0
