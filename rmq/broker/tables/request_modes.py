"""Message request modes: whether consumers of a topic pull or pop when the broker assigns queues.

    config/messageRequestMode.json
        {"messageRequestModeMap":{topic:{group:{"consumerGroup":..,"mode":"POP",
        "popShareQueueNum":0,"topic":..}}}}

An operator sets the mode (code 401, `mqadmin setConsumeMode`); assignments (400) tell it to
consumers. The default is defaultMessageRequestMode; retry topics are always pulled. The file has
Apache's form.

Example: set("t", "g", "POP", 2) -> of("t", "g") == ("POP", 2), also after a restart.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rmq.base.json_file import JsonFile
from rmq.broker.tables.config_saver import ConfigSaver
from rmq.config import Settings
from rmq.names import RETRY_PREFIX, group_fault, topic_fault

log = logging.getLogger("rmq.broker.request_modes")

PULL, POP = "PULL", "POP"


class RequestMode(NamedTuple):
    """`share`: how many neighbours' queues a member may pop besides its own; 0 or less: all."""

    mode: str
    share: int


class RequestModes:
    """Owned by the control thread."""

    def __init__(self, settings: Settings, config_directory: Path) -> None:
        self._settings = settings
        self._file = JsonFile(
            config_directory / "messageRequestMode.json",
            tables=("messageRequestModeMap",),
            lost="groups that were set to POP or PULL are asked for as defaultMessageRequestMode "
            "says, until `mqadmin setConsumeMode` sets them again",
        )
        self._saver = ConfigSaver(self._file, self.members)
        self._modes: dict[str, dict[str, RequestMode]] = {}
        self.changes = 0  # number of changes since the start

    def load(self) -> None:
        self._read((self._file.load() or {}).get("messageRequestModeMap") or {}, self._file.path)

    async def copy(self, table: Mapping[Any, Any], origin: str) -> None:
        """Makes this slave's table equal to the master's; returns when the file holds it."""
        self._modes.clear()
        self._read(table, origin)
        self.changes += 1
        self._saver.changed()
        await self._saver.saved()

    def _read(self, table: Mapping[Any, Any], origin: object) -> None:
        for topic, groups in table.items():
            for group, row in groups.items() if isinstance(groups, dict) else ():
                mode = row.get("mode", PULL) if isinstance(row, dict) else None
                share = row.get("popShareQueueNum", 0) if isinstance(row, dict) else None
                if (
                    mode not in (PULL, POP) or not isinstance(share, int)
                    or topic_fault(str(topic)) or group_fault(str(group))
                ):  # fmt: skip
                    log.error("%s: %.100r %.100r is skipped", origin, topic, group)
                    continue
                self._modes.setdefault(str(topic), {})[str(group)] = RequestMode(mode, share)

    def of(self, topic: str, group: str) -> RequestMode:
        known = self._modes.get(topic, {}).get(group)
        if known is not None:
            return known
        if topic.startswith(RETRY_PREFIX) or self._settings.defaultMessageRequestMode != POP:
            return RequestMode(PULL, 0)
        return RequestMode(POP, int(self._settings.defaultPopShareQueueNum))

    async def set(self, topic: str, group: str, mode: str, share: int) -> None:
        """Sets the mode; returns when the file holds it."""
        self._modes.setdefault(topic, {})[group] = RequestMode(mode, share)
        self.changes += 1
        self._saver.changed()
        await self._saver.saved()

    async def stop(self) -> None:
        await self._saver.stop()

    def members(self) -> dict[str, Any]:
        return {
            "messageRequestModeMap": {
                topic: {
                    group: {
                        "consumerGroup": group, "mode": row.mode,
                        "popShareQueueNum": row.share, "topic": topic,
                    }
                    for group, row in groups.items()
                }
                for topic, groups in self._modes.items()
            }
        }  # fmt: skip
