"""Known end: where the log once reached, by what a start finds. See known_end.pxd."""
import os
from pathlib import Path

from libc.stdint cimport uint8_t
from libc.string cimport memcmp

from cext.store.log.checkpoint cimport CheckpointFields
from cext.store.log.log_scan cimport LogScan
from cext.store.queues.queue_ends cimport EndsHeader, ends_header
from rmq.base import atomic_file

NAME = "rmqKnownEnd"
ENDS_NAME, SYNCED_ENDS_NAME = "queueEnds", "queueEnds.synced"


cdef bint is_boot(const void* boot_id, bytes boot) except -1:
    """Whether a file was written on the boot that runs, which may have no name."""
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
