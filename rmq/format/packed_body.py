"""Packed body: what a sender packed with zlib, unpacked up to a size.

    inflated(stored.body)     as its sender gave it; ValueError: "damaged", "larger than .. bytes"

zlib packs zeros a thousand to one, so a record of 4 MiB may stand for 4 GiB: whoever reads a topic
would be ended by what anybody may send to it, and again by the next try. Nothing is unpacked
without a limit.
"""

import zlib

# Of what a client unpacks; rmq.arrow's maxUnpackedBytes begins with it. Java's clients refuse to
# send more than maxMessageSize (4 MiB) before they pack it.
UNPACKED_BYTES_MAX = 64 << 20


def inflated(packed: bytes, limit: int = UNPACKED_BYTES_MAX) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(packed, limit + 1)
    except zlib.error:
        raise ValueError("damaged") from None
    if len(plain) > limit:
        raise ValueError(f"larger than {limit} bytes")
    if not inflater.eof:
        raise ValueError("damaged")
    return plain
