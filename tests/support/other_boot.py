"""Other boot: a store whose machine seems to have been started again since it was written.

Example: other_boot(path): what the broker wrote counts only as far as it was synced.
"""

import struct
import zlib
from pathlib import Path

from rmq.format.queue_ends import decode_ends, encode_ends
from rmq.format.store_files import CHECKPOINT_OWN_AT, read_checkpoint

CHECKPOINT_OWN_BYTES = 76  # cext/store/log/checkpoint.pxd
OTHER_BOOT = bytes(range(16))


def other_boot(store: Path) -> None:
    """Makes it seem that the machine was started again after the broker wrote its files."""
    path = store / "checkpoint"
    page = bytearray(path.read_bytes())
    own = memoryview(page)[CHECKPOINT_OWN_AT : CHECKPOINT_OWN_AT + CHECKPOINT_OWN_BYTES]
    own[8:24] = OTHER_BOOT  # behind magic and version
    own[-4:] = struct.pack(">I", zlib.crc32(own[:-4]))
    path.write_bytes(page)
    assert (found := read_checkpoint(path)) is not None
    assert (found.own_problem, found.boot_id) == ("", OTHER_BOOT)
    ends = store / "queueEnds"
    if ends.exists():
        ends.write_bytes(encode_ends(decode_ends(ends.read_bytes())._replace(boot_id=OTHER_BOOT)))
