"""Compressor: packs large bodies, as the parameters compress_* say.

    compressor = Compressor(parameters)
    body, sys_flag = compressor.compress(body)   # unchanged and 0 if it does not shrink

Bits of sysFlag: 0x1 packed; 0x100 LZ4 frame, 0x200 Zstandard, 0x300 zlib. A body packed with zlib
is marked with 0x1 alone, which clients before 4.9.4 understand too.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any

from rmq.client.parameters import ProducerParameters
from rmq.codes import COMPRESSED_FLAG, COMPRESSION_LZ4_TYPE, COMPRESSION_ZSTD_TYPE
from rmq.errors import ConfigError

KINDS = {"ZLIB": 0x0, "LZ4": COMPRESSION_LZ4_TYPE, "ZSTD": COMPRESSION_ZSTD_TYPE}
MODULES = {"LZ4": "lz4.frame", "ZSTD": "zstandard"}


class Compressor:
    """One kind of compression with its level; any thread may use it."""

    def __init__(self, parameters: ProducerParameters) -> None:
        kind = parameters.compress_type.upper()
        if kind not in KINDS:
            raise ConfigError(f"compress_type={parameters.compress_type}: ZLIB, LZ4 or ZSTD")
        if not 0 <= parameters.compress_level <= 9:
            raise ConfigError(f"compress_level={parameters.compress_level}: 0 to 9")
        self._from = parameters.compress_msg_body_over_howmuch
        self._flag = COMPRESSED_FLAG | KINDS[kind]
        self._pack = self._function(kind, parameters.compress_level)

    def _function(self, kind: str, level: int) -> Callable[[bytes], bytes]:
        if kind == "ZLIB":
            return lambda body: zlib.compress(body, level)
        try:
            module: Any = importlib.import_module(MODULES[kind])
        except ImportError:
            raise ConfigError(
                f"compress_type={kind} wants the package {MODULES[kind].partition('.')[0]}: "
                "pip install 'rmq[compression]'"
            ) from None
        if kind == "LZ4":
            return lambda body: bytes(module.compress(body, compression_level=level))
        return lambda body: bytes(module.ZstdCompressor(level=max(level, 1)).compress(body))

    def compress(self, body: bytes) -> tuple[bytes, int]:
        if len(body) < self._from:
            return body, 0
        packed = self._pack(body)
        return (packed, self._flag) if len(packed) < len(body) else (body, 0)
