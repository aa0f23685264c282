"""Messages that come later: RocketMQ's 18 delay levels, for consumers' retries.

    put()     a message for %RETRY%g in 10 s -> record in SCHEDULE_TOPIC_XXXX, queue level - 1,
              properties REAL_TOPIC, REAL_QID, DELAY; its queue entry's tags code is the time it
              is due (ms)
    run()     due -> the record's message is stored in REAL_TOPIC, queue REAL_QID, and the level's
              offset moves on
    config/delayOffset.json    {"dataVersion":{..},"offsetTable":{"3":17}}   level -> next offset

A level's messages are due in the order of their offsets, so only the first of each level is looked
at. Nothing is lost by a crash: the waiting message is a record of the log like any other, and what
was delivered since delayOffset.json was written last (10 s) is delivered once more. Files and
records are Apache's; either broker goes on where the other stopped.

Example: level 3 of "1s 5s 10s 30s .." is 10 s: put() at 12:00:00 appends an entry with tags code
12:00:10 to queue 2, and at 12:00:10 run() stores the message in %RETRY%g.

Written for the rate of retries. Delayed sends of producers need the reactor and come with it.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path

from rmq.broker import names
from rmq.broker.core_seam import Core
from rmq.broker.data_version import DataVersion, now_ms
from rmq.broker.deadline import within
from rmq.broker.json_file import JsonFile
from rmq.broker.queue_reader import Entry, QueueReader
from rmq.broker.topic_config import QUEUES_MAX, TopicConfig
from rmq.broker.topics import SCHEDULE_QUEUES, TopicTable
from rmq.config import Settings
from rmq.errors import ConfigError, ProtocolError, StoreError
from rmq.format.message import (
    SYS_FLAG_BORN_HOST_V6,
    SYS_FLAG_STORE_HOST_V6,
    StoredMessage,
    decode_message,
    encode_host,
    encode_properties,
)

log = logging.getLogger("rmq.broker.delays")

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ENTRIES_AT_ONCE = 64
HOST_FLAGS = SYS_FLAG_BORN_HOST_V6 | SYS_FLAG_STORE_HOST_V6  # the store sets them itself
RETRY_S = 1.0  # after the store refused a delivery
IDLE_S = 3600.0


def parse_levels(text: str) -> list[int]:
    """Milliseconds of each level of "1s 5s 10s"; ConfigError naming what is none."""
    levels = []
    for part in text.split():
        number, unit = part[:-1], part[-1:]
        if not number.isdecimal() or unit not in _UNIT_MS:
            raise ConfigError(f"messageDelayLevel: {part!r} is not a number with s, m, h or d")
        levels.append(int(number) * _UNIT_MS[unit])
    if not 0 < len(levels) <= SCHEDULE_QUEUES:
        raise ConfigError(f"messageDelayLevel: 1 to {SCHEDULE_QUEUES} levels, not {len(levels)}")
    return levels


@dataclass(slots=True)
class _Level:
    """The queue of one delay level."""

    number: int  # from 1
    delay_ms: int
    next_offset: int = 0  # first entry not delivered yet
    max_offset: int = 0

    @property
    def queue_id(self) -> int:
        return self.number - 1


class DelayedMessages:
    """Owned by the control thread."""

    def __init__(
        self,
        settings: Settings,
        core: Core,
        queues: QueueReader,
        topics: TopicTable,
        config_directory: Path,
    ) -> None:
        self._core = core
        self._queues = queues
        self._topics = topics
        self._file = JsonFile(config_directory / "delayOffset.json")
        self._levels = [
            _Level(number, delay_ms)
            for number, delay_ms in enumerate(parse_levels(settings.messageDelayLevel), 1)
        ]
        self._version = DataVersion()
        self._moved = False  # some offset is ahead of the file
        self._saving = asyncio.Lock()
        self._news = asyncio.Event()

    # ---- start and stop

    def load(self) -> None:
        content = self._file.load() or {}
        self._version = DataVersion.of(content.get("dataVersion"))
        table = {str(key): value for key, value in (content.get("offsetTable") or {}).items()}
        for level in self._levels:
            minimum, level.max_offset = self._queues.range(names.SCHEDULE_TOPIC, level.queue_id)
            offset = table.get(str(level.number), 0)
            if not isinstance(offset, int):
                log.error("%s: offset %.50r of level %d is no number", self._file.path, offset,
                          level.number)  # fmt: skip
                offset = minimum
            level.next_offset = max(minimum, min(offset, level.max_offset))
        waiting = self.waiting()
        if waiting:
            log.info("delayed messages waiting: %d", waiting)

    def waiting(self) -> int:
        """Messages that are not delivered yet."""
        return sum(level.max_offset - level.next_offset for level in self._levels)

    async def save(self) -> None:
        """Writes delayOffset.json when an offset has moved."""
        async with self._saving:
            if not self._moved:
                return
            self._moved = False
            self._version.advance()
            try:
                await asyncio.to_thread(self._file.save, self.members())
            except OSError:
                self._moved = True
                raise

    def members(self) -> dict[str, object]:
        """The content of delayOffset.json."""
        return {
            "dataVersion": self._version.members(),
            "offsetTable": {str(level.number): level.next_offset for level in self._levels},
        }

    # ---- in and out

    def put(self, message: StoredMessage, delay_level: int) -> tuple[int, int]:
        """Stores the message to come to its topic and queue after the level's delay; returns
        where (physical offset, offset in the level's queue). Written when it returns."""
        level = self._levels[min(delay_level, len(self._levels)) - 1]
        properties = {
            **message.properties,
            "DELAY": str(level.number),
            "REAL_TOPIC": message.topic,
            "REAL_QID": str(message.queue_id),
        }
        physical_offset, offset = self._core.append(
            names.SCHEDULE_TOPIC.encode(),
            level.queue_id,
            message.body,
            encode_properties(properties),
            message.flag,
            message.sys_flag & ~HOST_FLAGS,
            message.born_timestamp_ms,
            encode_host(message.born_host),
            message.reconsume_times,
            message.prepared_offset,
            now_ms() + level.delay_ms,
        )
        level.max_offset = offset + 1
        self._news.set()
        return physical_offset, offset

    async def run(self) -> None:
        """Delivers what is due, for ever."""
        while True:
            self._news.clear()
            pause = IDLE_S
            for level in self._levels:
                if level.next_offset < level.max_offset:
                    try:
                        pause = min(pause, await self._deliver_due(level))
                    except StoreError as error:
                        log.error("delay level %d waits: %s", level.number, error)
                        pause = min(pause, RETRY_S)
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._news.wait(), pause)

    async def _deliver_due(self, level: _Level) -> float:
        """Delivers a portion of the level; seconds until there is more to do."""
        view = self._queues.view(names.SCHEDULE_TOPIC, level.queue_id)
        if view is None:
            raise StoreError(f"queue {level.queue_id} of {names.SCHEDULE_TOPIC} is not there")
        if level.next_offset < view.min_offset:
            log.error("delay level %d: messages %d to %d were deleted with old log files",
                      level.number, level.next_offset, view.min_offset - 1)  # fmt: skip
            level.next_offset = view.min_offset
        entries = self._queues.entries(view, level.next_offset, ENTRIES_AT_ONCE)
        if not entries and level.next_offset < view.max_offset:
            log.error("delay level %d: entry %d cannot be read and is skipped",
                      level.number, level.next_offset)  # fmt: skip
            level.next_offset += 1
            return 0.0
        for entry in entries:
            due_ms = min(entry.tags_code, now_ms() + level.delay_ms)
            if due_ms > now_ms():
                return (due_ms - now_ms()) / 1000
            await self._deliver(level, entry)
            level.next_offset += 1
            self._moved = True
        return 0.0 if level.next_offset < level.max_offset else IDLE_S

    async def _deliver(self, level: _Level, entry: Entry) -> None:
        """Stores the waiting message in its real topic. A damaged record is logged and passed."""
        record = self._core.read_record(entry.physical_offset)
        try:
            if record is None:
                raise ProtocolError("the record cannot be read")
            message, _ = decode_message(record)
            properties = message.properties
            topic, queue = properties.get("REAL_TOPIC", ""), properties.get("REAL_QID", "0")
            if names.topic_fault(topic) or not queue.isdecimal() or int(queue) >= QUEUES_MAX:
                raise ProtocolError(f"REAL_TOPIC {topic[:300]!r}, REAL_QID {queue[:20]!r}")
        except ProtocolError as error:
            log.error("delay level %d: the message at %d is dropped: %s",
                      level.number, entry.physical_offset, error)  # fmt: skip
            return
        known = self._topics.get(topic)
        if known is None or int(queue) >= known.queues:
            count = int(queue) + 1
            known = await self._topics.create(TopicConfig(topic, count, count))
        self._core.append(
            topic.encode(),
            min(int(queue), max(known.queues - 1, 0)),
            message.body,
            message.properties_bytes,
            message.flag,
            message.sys_flag & ~HOST_FLAGS,
            message.born_timestamp_ms,
            encode_host(message.born_host),
            message.reconsume_times,
            message.prepared_offset,
        )
