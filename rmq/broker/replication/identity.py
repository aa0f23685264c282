"""Identity: which replica of its brokerName this broker is: an id that the controller gives.

    <storePathRootDir>/brokerIdentity         cluster#name#id
    <storePathRootDir>/brokerIdentity-temp    cluster#name#id#ip:port;milliseconds

The second file exists while the broker applies for an id. The controller keeps the last part, the
check code, with the id: so a broker that was killed before the answer came applies again for the
same id, and gets it. Names, places and texts are RocketMQ's, whose brokers can read them;
storePathBrokerIdentity puts the files elsewhere.

Example: DefaultCluster#broker-a#2
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from rmq.base import atomic_file
from rmq.base.clock import now_ms
from rmq.base.durable_directory import sync_directory
from rmq.config import Settings
from rmq.errors import ConfigError, StoreCorruptError

FIRST_ID = 1
ID_MAX = 2**63 - 1
NAME_CHARACTERS_MAX = 255
FILE_BYTES_MAX = 4096
SEPARATOR = "#"
TEMP = "-temp"

log = logging.getLogger("rmq.broker.identity")


class Application(msgspec.Struct, frozen=True):
    """An id that was applied for, without an answer yet. `check_code` tells two applicants
    apart."""

    broker_id: int
    check_code: str


class IdentityFiles:
    """Owned by the control thread."""

    def __init__(self, path: Path, cluster: str, name: str) -> None:
        for key, value in (("brokerClusterName", cluster), ("brokerName", name)):
            _check_name(key, value)
        self.path = path
        self._temp = path.with_name(path.name + TEMP)
        self._cluster = cluster
        self._name = name

    def broker_id(self) -> int | None:
        """This broker's id; None: it has none yet. ConfigError: the store is another broker's;
        StoreCorruptError."""
        text = _read(self.path)
        if text is None:
            return None
        parts = text.split(SEPARATOR)
        broker_id = _id(parts[2]) if len(parts) == 3 else None
        if broker_id is None:
            raise StoreCorruptError(
                f"{self.path}: {text[:80]!r} is not cluster#name#id. If you know the id of this "
                "broker (mqadmin getSyncStateSet), write it there; if not, remove the whole "
                "store, and it joins as a new replica"
            )
        if parts[:2] != [self._cluster, self._name]:
            raise ConfigError(
                f"{self.path}: this store is that of {parts[1]} in cluster {parts[0]}, and the "
                f"settings say brokerName={self._name}, brokerClusterName={self._cluster}: set "
                "them as they were, or give this broker another storePathRootDir"
            )
        return broker_id

    def application(self) -> Application | None:
        """The application under way, if there is one. A file that cannot be read is removed, and
        the broker then applies for another id."""
        try:
            text = _read(self._temp)
        except StoreCorruptError as error:
            text = str(error)
        if text is None:
            return None
        parts = text.split(SEPARATOR, 3)
        broker_id = _id(parts[2]) if len(parts) == 4 else None
        if broker_id is None or parts[:2] != [self._cluster, self._name] or not parts[3]:
            log.warning("%s is removed, a new id is asked for: %r", self._temp, text[:80])
            self.drop_application()
            return None
        return Application(broker_id, parts[3])

    def apply(self, broker_id: int, address: str) -> Application:
        """Notes that this id will be applied for."""
        made = Application(broker_id, f"{address};{now_ms()}")
        self._write(self._temp, broker_id, made.check_code)
        return made

    def keep(self, broker_id: int) -> None:
        """Keeps the id, which the controller has given to this broker."""
        self._write(self.path, broker_id)
        self.drop_application()

    def drop_application(self) -> None:
        self._temp.unlink(missing_ok=True)
        if self._temp.parent.is_dir():
            sync_directory(self._temp.parent)

    def _write(self, path: Path, broker_id: int, *more: str) -> None:
        if not FIRST_ID <= broker_id <= ID_MAX:
            raise ValueError(f"{broker_id} is no id of a broker")
        text = SEPARATOR.join((self._cluster, self._name, str(broker_id), *more))
        atomic_file.replace(path, text.encode())


def identity_path(settings: Settings) -> Path:
    given = settings.storePathBrokerIdentity
    return Path(given or Path(settings.storePathRootDir) / "brokerIdentity").expanduser()


def _check_name(key: str, value: str) -> None:
    printable = value.isprintable() and SEPARATOR not in value and "/" not in value
    if not 0 < len(value) <= NAME_CHARACTERS_MAX or not printable:
        raise ConfigError(
            f"{key}={value[:80]}: with enableControllerMode a name has 1 to {NAME_CHARACTERS_MAX} "
            f"characters that can be printed, and neither {SEPARATOR} nor /"
        )


def _id(text: str) -> int | None:
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        return None
    return int(text) if FIRST_ID <= int(text) <= ID_MAX else None


def _read(path: Path) -> str | None:
    """The file's text; StoreCorruptError if it is no short text. RocketMQ's file has no end of
    line."""
    content = atomic_file.read(path)
    if content is None:
        return None
    if len(content) > FILE_BYTES_MAX:
        raise StoreCorruptError(f"{path}: {len(content)} bytes, where one short line is expected")
    return content.decode("utf-8", "replace").strip()
