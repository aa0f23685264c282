"""Known end: where the log once reached, by what a start finds. See known_end.pxd."""
import os
from pathlib import Path

from libc.string cimport memcmp

from cext.store.log.checkpoint cimport CheckpointFields
from rmq.base import atomic_file

NAME = "rmqKnownEnd"


cdef int64_t find_known_end(str root, const CheckpointFields* checkpoint, bytes boot) except -1:
    cdef bint same_boot = (memcmp(checkpoint.boot_id, <const char*> boot, 16) == 0
                           and boot != bytes(16))
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
