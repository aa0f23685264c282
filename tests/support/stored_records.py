"""Stored records: records packed by their layout alone, for tests of code that reads records."""

import struct
import zlib

V1, V2 = 0xDAA320A7, 0xDAA320AB


def record(offset, body=b"body", topic=b"bench", properties=b"WAIT\x01true\x02", magic=V1, flags=0):
    born = b"\x7f\0\0\1" + b"\0\0\x10\0" if not flags & 0x10 else bytes(16) + b"\0\0\x10\0"
    store = b"\x7f\0\0\1" + b"\0\0\x20\0" if not flags & 0x20 else bytes(16) + b"\0\0\x20\0"
    rest = struct.pack(">IiiqqiQ", zlib.crc32(body) & 0x7FFFFFFF, 0, 0, offset, 4096, flags, 1)
    rest += born + struct.pack(">Q", 2) + store + struct.pack(">iq", 0, 0)
    rest += struct.pack(">i", len(body)) + body
    rest += (bytes([len(topic)]) if magic == V1 else struct.pack(">H", len(topic))) + topic
    rest += struct.pack(">H", len(properties)) + properties
    return struct.pack(">II", len(rest) + 8, magic) + rest
