"""Packed body: unpacks the body of a message as its sender packed it, up to a size.

    inflated(stored.body)           of zlib; ValueError: "damaged", "larger than .. bytes"
    lz4_unpacked(stored.body)       likewise; ImportError without the package lz4
    zstd_unpacked(stored.body)      likewise; ImportError without the package zstandard

zlib packs zeros a thousand to one, so a record of 4 MiB may stand for 4 GiB. A consumer that
unpacked it would run out of memory, and again at each retry, and anybody may send such a record to
its topic. So nothing is unpacked without a limit.

A body of LZ4 or zstd may have several frames, which Java's clients read one after the other.
"""

import zlib

# The limit for clients, and the default of rmq.arrow's maxUnpackedBytes. Java's clients refuse to
# send more than maxMessageSize (4 MiB), measured before packing.
UNPACKED_BYTES_MAX = 64 << 20
HEADER_BYTES_MAX = 18  # of a frame of zstd
PIECE_BYTES = 1024  # unpack to 32 MiB at most: a block of 128 KiB takes 4 bytes or more


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


def lz4_unpacked(packed: bytes, limit: int = UNPACKED_BYTES_MAX) -> bytes:
    from lz4.frame import LZ4FrameDecompressor

    parts, size = [], 0
    while True:
        frame = LZ4FrameDecompressor()
        try:
            parts.append(frame.decompress(packed, max_length=limit + 1 - size))
        except RuntimeError:
            raise ValueError("damaged") from None
        size += len(parts[-1])
        if size > limit:
            raise ValueError(f"larger than {limit} bytes")
        if not frame.eof:
            raise ValueError("damaged")
        packed = frame.unused_data
        if not packed:
            return b"".join(parts)


def zstd_unpacked(packed: bytes, limit: int = UNPACKED_BYTES_MAX) -> bytes:
    import zstandard

    parts, size, at = [], 0, 0
    try:
        while True:
            told = zstandard.frame_content_size(packed[at : at + HEADER_BYTES_MAX])  # -1: not told
            if size + told > limit:
                raise ValueError(f"larger than {limit} bytes")
            # No frame unpacks to more than it tells. One that does not tell it is fed in pieces.
            piece_bytes = len(packed) if told >= 0 else PIECE_BYTES
            frame = zstandard.ZstdDecompressor().decompressobj()
            while not frame.eof:
                if at == len(packed):
                    raise ValueError("damaged")
                piece = packed[at : at + piece_bytes]
                parts.append(frame.decompress(piece))
                at += len(piece) - len(frame.unused_data)
                size += len(parts[-1])
                if size > limit:
                    raise ValueError(f"larger than {limit} bytes")
            if at == len(packed):
                return b"".join(parts)
    except zstandard.ZstdError:
        raise ValueError("damaged") from None
