"""Delay levels: the delay of each level, and how far each level has been delivered.

    messageDelayLevel=1s 5s 10s ..     level 1, 2, 3 ..; given to the reactor, which stores delayed
                                       messages, waits and delivers (cext/flow/delay/schedule.pxd)
    config/delayOffset.json            {"dataVersion":{..},"offsetTable":{"3":17}}
                                       level -> offset of the first message not delivered
                                       "rmqCopy":true: all offsets come from a master; RocketMQ
                                       ignores the member and drops it

The file is written every 10 s, with offsets whose deliveries are already on the disk. Messages that
were delivered since are delivered once more after a crash, and nothing is lost. Files and records
have Apache's form; either broker goes on where the other stopped.

Example: level 3 is 10 s: a send at 12:00:00 with DELAY=3 makes an entry with tags code 12:00:10 in
queue 2 of SCHEDULE_TOPIC_XXXX; at 12:00:10 the reactor stores the message in its topic and the
offset of level 3 becomes 18.
"""

import asyncio
import logging
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rmq import names
from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import DelayCalls, LogCalls, QueueCalls
from rmq.broker.tables.data_version import DataVersion
from rmq.broker.tables.message_delay_level import parse_levels
from rmq.codes import BORNHOST_V6_FLAG, STOREHOSTADDRESS_V6_FLAG
from rmq.config import Settings

log = logging.getLogger("rmq.broker.delay_levels")

COPY = "rmqCopy"

HOST_FLAGS = BORNHOST_V6_FLAG | STOREHOSTADDRESS_V6_FLAG  # the store sets them itself


class CoreCalls(DelayCalls, LogCalls, QueueCalls, Protocol):
    """What is used here of the core."""


def offset_file(config_directory: Path) -> JsonFile:
    return JsonFile(
        config_directory / "delayOffset.json",
        tables=("offsetTable",),
        advice="Put a copy in its place, or remove it and its .bak: then all delayed messages "
        "that are still in the log are delivered again, also those that were.",
    )


class DelayLevels:
    """Owned by the control thread."""

    def __init__(self, settings: Settings, core: CoreCalls, config_directory: Path) -> None:
        self._core = core
        self._file = offset_file(config_directory)
        self._delays_ms = parse_levels(settings.messageDelayLevel)
        self._version = DataVersion()
        self._saved: tuple[list[int], bool] = [], False  # offsets in the file; are they a copy?
        # Offsets from a master; the core's differ from these once this broker has delivered.
        self._copied: list[int] | None = None
        # What the file must hold next, like _saved, and the log end that must be on the disk first.
        self._waiting: tuple[tuple[list[int], bool], int] | None = None
        self._saving = asyncio.Lock()

    # ---- start and stop

    def load(self) -> None:
        """Reads the file; from then on the reactor delivers."""
        content = self._file.load() or {}
        self._version = DataVersion.of(content.get("dataVersion"))
        table = {str(key): value for key, value in (content.get("offsetTable") or {}).items()}
        is_copy = content.get(COPY) is True
        said = [table.get(str(level), 0) for level in range(1, len(self._delays_ms) + 1)]
        offsets = self._within(said, are_masters=is_copy)
        for level, offset in enumerate(offsets, 1):
            waiting = self._range(level)[1] - offset
            if waiting > 0:
                log.info("delay level %d: %d messages waiting", level, waiting)
        self._saved = list(offsets), is_copy
        self._copied = list(offsets) if is_copy else None
        if any(map(operator.is_not, offsets, said)):
            self._correct(offsets, is_copy)
        self._core.set_delay_levels(self._delays_ms, offsets)

    def _within(self, offsets: Sequence[object], *, are_masters: bool) -> list[int]:
        """Each offset as it is, or the nearest one in its queue. are_masters: the offsets come from
        a master. These come before the log that they speak of, so they may be outside a log that
        begins later or ends earlier; nothing is lost then."""
        found = []
        for level, offset in enumerate(offsets, 1):
            minimum, maximum = self._range(level)
            if not isinstance(offset, int) or not minimum <= offset <= maximum:
                is_wrong = not are_masters or not isinstance(offset, int) or offset < 0
                log.log(logging.ERROR if is_wrong else logging.INFO,
                        "%s: offset %.50r of level %d is not within %d to %d",
                        self._file.path, offset, level, minimum, maximum)  # fmt: skip
                offset = minimum if not isinstance(offset, int) or offset < minimum else maximum
            found.append(offset)
        return found

    def _correct(self, offsets: list[int], is_copy: bool) -> None:
        """Corrects the file before more messages are stored: an offset beyond its queue would be
        within the queue once that has grown, and messages stored until then would count as
        delivered at the next start."""
        self._version.advance()
        try:
            self._file.save(self._marked(offsets, is_copy))
            self._file.settle()
        except OSError as error:
            self._saved = [], False  # the next save() writes it
            log.error("%s is not corrected yet: %r", self._file.path, error)

    def copy(self, table: Mapping[Any, Any]) -> None:
        """Takes the master's offsets, from which this slave goes on when it is promoted; the
        reactor of a slave delivers nothing. The next save() writes them to the file."""
        offsets, _ = self._core.delay_offsets()
        for level, offset in table.items():
            number = int(level) if str(level).isdecimal() else 0
            if 1 <= number <= len(offsets) and isinstance(offset, int) and 0 <= offset < 2**63:
                offsets[number - 1] = offset
        self._copied = list(offsets)
        self._core.set_delay_levels(self._delays_ms, offsets)

    async def bound(self) -> None:
        """Called when a slave begins to lead, before it takes messages: lowers offsets that are
        beyond their queues. A master's offsets come before the log that they speak of, and that log
        may never come. The messages stored there now are others and must not count as delivered,
        nor by the file, which is corrected here as well."""
        if all(offset <= end for offset, end in self.progress().values()):
            return
        offsets, _ = self._core.delay_offsets(1)  # stops the delivery, else messages come twice
        is_copy = offsets == self._copied
        offsets = self._within(offsets, are_masters=True)
        self._copied = list(offsets) if is_copy else None
        self._waiting = None
        self._core.set_delay_levels(self._delays_ms, list(offsets))
        await self._write(offsets, is_copy)

    def offsets(self) -> list[int]:
        """For each level the offset of the first message that is not delivered yet, as of now."""
        return self._core.delay_offsets()[0]

    def content(self) -> dict[str, object]:
        """The content of delayOffset.json as of now."""
        return self.members(self.offsets())

    def waiting(self) -> int:
        """How many messages are not delivered yet."""
        return sum(end - offset for offset, end in self.progress().values())

    def progress(self) -> dict[int, tuple[int, int]]:
        """level -> (offset of the first message not delivered, end of its queue)."""
        offsets, _ = self._core.delay_offsets()
        return {level: (offset, self._range(level)[1]) for level, offset in enumerate(offsets, 1)}

    def _range(self, level: int) -> tuple[int, int]:
        return self._core.queue_range(names.SCHEDULE_TOPIC.encode(), level - 1) or (0, 0)

    async def save(self) -> None:
        """Writes delayOffset.json when offsets have moved and their deliveries are on the disk."""
        if self._waiting is None:
            offsets, end = self._core.delay_offsets()
            now = offsets, offsets == self._copied
            if now == self._saved:
                return
            self._waiting = now, end
        if self._core.log_range()[2] >= self._waiting[1]:
            await self._write(*self._waiting[0])
            self._waiting = None

    async def stop(self) -> None:
        """Ends the delivery and writes the last offsets. StoreError: the last deliveries cannot be
        brought to the disk, so these messages are delivered again at the next start."""
        offsets, end = self._core.delay_offsets(1)
        now = offsets, offsets == self._copied
        if now != self._saved:
            await asyncio.to_thread(self._core.sync_log, end)
            await self._write(*now)
        await asyncio.to_thread(self._file.settle)

    async def _write(self, offsets: list[int], is_copy: bool) -> None:
        async with self._saving:
            self._version.advance()
            await asyncio.to_thread(self._file.save, self._marked(offsets, is_copy))
            self._saved = offsets, is_copy

    def _marked(self, offsets: list[int], is_copy: bool) -> dict[str, object]:
        return self.members(offsets) | ({COPY: True} if is_copy else {})

    def members(self, offsets: list[int]) -> dict[str, object]:
        """The content of delayOffset.json in RocketMQ's form."""
        return {
            "dataVersion": self._version.members(),
            "offsetTable": {str(level): offset for level, offset in enumerate(offsets, 1)},
        }
