"""Audit tail: the newest lines of the audit file, for Super users (request 30001).

    tails = AuditTails(Path("/var/log/rmq/audit.log"))
    await tails.answer(request, asker)          maxNum=50 user=alice: 0, with a body of JSON

The last SCANNED_BYTES_MAX of the file are searched in a thread of its own, for one request at a
time, so that these requests do not slow down the server. Files that logrotate has moved away are
not searched.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rmq.auth.admin import Asker
from rmq.codes import ResponseCode
from rmq.errors import StoreError
from rmq.format.audit_log import AuditQuery, AuditTail, decode_line
from rmq.format.remoting import Command
from rmq.format.store_files import current_boot_id
from rmq.refusal import Refusal

SCANNED_BYTES_MAX = 8 << 20  # of the file, from its end
LINES_BYTES_MAX = 1 << 20  # of lines in an answer, counted as in the file


class AuditTails:
    """Owned by one event loop."""

    def __init__(self, path: Path | None) -> None:
        """path None: audit lines are in the server's own log, among all other lines."""
        self._path = path
        self._one_at_a_time = asyncio.Lock()

    async def answer(self, request: Command, asker: Asker) -> Command:
        """The answer to 30001. Refusal, ProtocolError, or StoreError: the file cannot be read."""
        # Super users only, even if authorization is off; an address alone is not enough.
        if not asker.is_super:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"request type {request.code} is open to Super users alone",
            )
        if self._path is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"request {request.code}: there is no audit file here, its lines are in the log; "
                "start with rmqAuditLog=FILE, as `rmq setup security` sets it",
            )
        query = AuditQuery.of(request)
        async with self._one_at_a_time:
            found = await asyncio.to_thread(tail, self._path, query)
        return request.reply(body=msgspec.json.encode(found))


def tail(path: Path, query: AuditQuery) -> AuditTail:
    """The newest lines that match; invalid lines are left out. StoreError: the file cannot be
    read."""
    try:
        name, data, is_whole = _end(path)
    except OSError as error:
        raise StoreError(f"rmqAuditLog {path} cannot be read: {error.strerror}") from None
    found, size = AuditTail(name, [], is_whole=is_whole), 0
    for line in _newest_first(data, is_whole):
        decoded = decode_line(line)
        if decoded is None or not query.fits(decoded):
            continue
        size += len(line)
        if len(found.lines) == query.count or size > LINES_BYTES_MAX:
            found.has_more = True
            break
        found.lines.append(decoded)
    return found


def _end(path: Path) -> tuple[str, bytes, bool]:
    """(identity of the file, its last bytes, whether they are all of it). After logrotate has moved
    the file away, it counts as empty until the next line makes it anew."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return "", b"", True
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"rmqAuditLog {path} is no file that can be read again")
        place = b"%s %d %d" % (current_boot_id(), status.st_dev, status.st_ino)
        begin = max(0, status.st_size - SCANNED_BYTES_MAX)
        data = os.pread(descriptor, status.st_size - begin, begin)
        return hashlib.blake2b(place, digest_size=8).hexdigest(), data, begin == 0
    finally:
        os.close(descriptor)


def _newest_first(data: bytes, is_whole: bool) -> Iterator[bytes]:
    """The whole lines, newest first, without one that is still being written or was cut off at the
    front."""
    end = data.rfind(b"\n")
    while end > 0:
        before = data.rfind(b"\n", 0, end)
        if before >= 0 or is_whole:
            yield data[before + 1 : end]
        end = before
