"""Batches: finished columns as Arrow record batches, and packed bodies unpacked, on executors.

maker = BatchMaker(arrow_schema, columns)
yield maker.batch()
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cext.arrow.columns import Columns
from rmq.codes import COMPRESSION_NAMES, COMPRESSION_TYPE_COMPARATOR
from rmq.format.packed_body import inflated


def unpack_body(sys_flag: int, packed: bytes, limit: int) -> bytes:
    """The body as its sender gave it; ValueError when it is damaged or larger than `limit`."""
    packing = COMPRESSION_NAMES.get(sys_flag & COMPRESSION_TYPE_COMPARATOR)
    if packing is None:
        raise ValueError("unknown packing")
    if packing == "zlib":
        return inflated(packed, limit)
    try:
        with pa.input_stream(pa.py_buffer(packed), compression=packing) as stream:
            plain: bytes = stream.read(limit + 1)
    except (OSError, pa.ArrowInvalid) as error:  # not MemoryError: that is no damage
        raise ValueError(str(error)) from None
    if len(plain) > limit:
        raise ValueError("larger than allowed")
    return plain


class BatchMaker:
    """Makes batches of one schema from what is in `columns`; no bytes are copied.

    With Arrow's C data interface a batch is a few pointers, and takes two calls from Python.
    """

    def __init__(self, schema: Any, columns: Columns) -> None:
        self._schema = schema
        self._hand_over = columns.hand_over
        self._import = pa.RecordBatch._import_from_c

    def batch(self) -> Any:
        """The rows so far as a batch; the columns then begin the next one."""
        return self._import(self._hand_over(), self._schema)
