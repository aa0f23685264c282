"""Known end: where the log once reached, by what a start finds. See known_end.pxd."""
import os

from libc.string cimport memcmp

from cext.store.log.checkpoint cimport CheckpointFields
from cext.store.log.commit_log import sync_path

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
    path, content = os.path.join(root, NAME), b"%d" % known_end
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read(20) == content:
                return 0
    with open(path + ".new", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
    sync_path(root)
    return 0
