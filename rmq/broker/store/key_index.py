"""Key index: passes queries to the indexer's thread and answers them on the control thread's loop.

    records, last_ms, last_offset = await broker.index_queries.find(topic, key, ANY_KEY, 32, 0, now)

The indexer's thread finds the records, reads and checks them. No other thread takes part, so that
an answer waits for two wake-ups of threads and not for six. The thread has at most QUERIES_MAX
queries; further ones wait here for their turn.
"""

import asyncio
import itertools

from rmq.broker.core_seam import IndexCalls
from rmq.errors import StoreError

QUERIES_MAX = 60  # the thread takes up to 64
BODY_BYTES_MAX = 16_000_000  # of an answer; a frame may have 16 MiB

Found = tuple[list[bytes], int, int]


class IndexQueries:
    """Owned by the control thread."""

    def __init__(self, core: IndexCalls) -> None:
        self._core = core
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Found]] = {}
        self._room = asyncio.Semaphore(QUERIES_MAX)
        self._fd = -1

    def start(self) -> None:
        self._fd = self._core.index_fd
        if self._fd >= 0:
            asyncio.get_running_loop().add_reader(self._fd, self._answers)

    def stop(self) -> None:
        """Cancels queries that still wait."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
        for future in self._waiting.values():
            future.cancel()

    async def find(
        self, topic: bytes, key: bytes, kind: int, count: int, begin_ms: int, end_ms: int
    ) -> Found | None:
        """(records, newest first, as many as one answer holds; store time and log offset of the
        newest message indexed). None: there is no index. StoreError when it cannot be read."""
        if self._core.index_fd < 0:
            return None
        async with self._room:
            number = next(self._numbers)
            future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
            self._waiting[number] = future
            try:
                if not self._core.ask_index(
                    number, topic, key, kind, count, begin_ms, end_ms, BODY_BYTES_MAX
                ):
                    raise StoreError("too many questions wait for the key index")
                return await future
            finally:
                self._waiting.pop(number, None)

    def _answers(self) -> None:
        for number, failure, records, last_ms, last_offset in self._core.index_answers():
            future = self._waiting.get(number)
            if future is None or future.done():
                continue  # its request was cancelled
            if failure:
                future.set_exception(StoreError(failure))
            else:
                future.set_result((records, last_ms, last_offset))
