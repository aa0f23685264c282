"""Finished columns as Arrow record batches, and packed bodies unpacked: what runs on executors.

maker = BatchMaker(arrow_schema)
yield maker.batch(*columns.take())
"""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa

# Bits of the sys flag that say how a body is packed (0: zlib, of old clients).
_PACKINGS = {0x000: "zlib", 0x100: "lz4", 0x200: "zstd", 0x300: "zlib"}
_PACKING_MASK = 0x700


def unpack_body(sys_flag: int, packed: bytes, limit: int) -> bytes:
    """The body as its sender gave it; ValueError when it is damaged or larger than `limit`."""
    packing = _PACKINGS.get(sys_flag & _PACKING_MASK)
    if packing is None:
        raise ValueError("unknown packing")
    if packing == "zlib":
        inflater = zlib.decompressobj()
        try:
            plain = inflater.decompress(packed, limit + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if not inflater.eof:
            raise ValueError("larger than allowed, or cut off")
    else:
        try:
            with pa.input_stream(pa.py_buffer(packed), compression=packing) as stream:
                plain = stream.read(limit + 1)
        except (OSError, pa.ArrowException) as error:
            raise ValueError(str(error)) from None
    if len(plain) > limit:
        raise ValueError("larger than allowed")
    return plain


class BatchMaker:
    """Buffers of cext/arrow into batches of one schema; no bytes are copied."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._types = [field.type for field in schema]

    def batch(self, rows: int, columns: list[tuple[int, list[Any]]]) -> Any:
        arrays = [
            self._array(kind, rows, nulls, buffers)
            for kind, (nulls, buffers) in zip(self._types, columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, kind: Any, rows: int, nulls: int, buffers: list[Any]) -> Any:
        valid = None if buffers[0] is None else pa.py_buffer(buffers[0])
        if not pa.types.is_nested(kind):
            data = [valid, *(pa.py_buffer(each) for each in buffers[1:])]
            return pa.Array.from_buffers(kind, rows, data, nulls)
        offsets, count, name_offsets, names, value_offsets, values = buffers[1:]
        entry = kind.value_type if pa.types.is_list(kind) else pa.struct(
            [kind.key_field, kind.item_field])  # fmt: skip
        children = [
            pa.Array.from_buffers(
                entry.field(at).type, count, [None, pa.py_buffer(ends), pa.py_buffer(data)], 0
            )
            for at, (ends, data) in enumerate(((name_offsets, names), (value_offsets, values)))
        ]
        entries = pa.Array.from_buffers(entry, count, [None], 0, children=children)
        data = [valid, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, rows, data, nulls, children=[entries])
