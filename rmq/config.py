"""Config: settings of a broker, a name server or a controller, by RocketMQ's own key names, typed.

    settings = load_properties("broker.conf", {"flushDiskType": "sync"})
    settings.flushDiskType          "SYNC_FLUSH"
    settings.listenPort             10911
    settings.set("listenPort", "70000")
        ConfigError: listenPort=70000: a whole number from 0 to 65535
    settings.set("listenprt", "1")
        ConfigError: listenprt: no such setting. Did you mean listenPort?

`config_table.py` has the keys with their defaults, limits and effects. A file written for Apache
RocketMQ loads, unless it has keys that would be unsafe to ignore, or keys that no release of
RocketMQ has; `without_effect()` names the keys in it that change nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rmq import java_properties
from rmq.config_table import MASK, Setting, broker_table, table_of
from rmq.errors import ConfigError

# A record is the body, the topic and at most 32 KiB of properties; Apache allows 64 KiB in all.
RECORD_OVERHEAD_BYTES = 64 << 10
STUCK_S_MIN = 5  # the time after which the log calls a reactor slow
QUEUE_ENTRY_BYTES = 20

# No request may change these, whatever the black list says: RocketMQ made commands and paths of
# them.
NEVER_CHANGED = frozenset(("configBlackList", "rocketmqHome", "brokerConfigPath"))
RUN_TIME_TEXT_MAX = 4096


class ForbiddenError(ConfigError):
    """A change that only the property file may make was tried at run time."""


class Settings:
    """The value of each key of the table. Owned by the thread that serves requests; not locked."""

    def __init__(self, table: Mapping[str, Setting] | None = None) -> None:
        self._table = broker_table() if table is None else table
        self._values: dict[str, Any] = {key: row.default for key, row in self._table.items()}
        self._given: set[str] = set()

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        try:
            return self._values[key]
        except KeyError:
            raise AttributeError(self.unknown([key])) from None

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def setting(self, key: str) -> Setting:
        """The table's row of this key. ConfigError, with a suggestion: there is none."""
        try:
            return self._table[key]
        except KeyError:
            raise ConfigError(self.unknown([key])) from None

    def set(self, key: str, text: str) -> None:
        """Sets a key; the value is in the text form of property files."""
        self._values[key] = parse_value(self.setting(key), text)
        self._given.add(key)

    def change(self, changes: Mapping[str, str]) -> list[str]:
        """Changes several keys at run time: all of them, or none and a ConfigError. Returns the
        keys whose change only affects what is shown: RocketMQ's keys without effect here.

        A key that needs a restart is a ForbiddenError, unless the value is the present one; a value
        that a file may not have either is refused with its own reason."""
        before = dict(self._values)
        given = set(self._given)
        try:
            for key, text in changes.items():
                self._change(key, text)
            self.check()
        except ConfigError:
            self._values, self._given = before, given
            raise
        return sorted(key for key in changes if not self._table[key].acted)

    def can_change(self, key: str) -> bool:
        """Whether this key may be changed at run time; ConfigError for unknown keys."""
        row = self.setting(key)
        return row.run_time or not row.acted

    def _change(self, key: str, text: str) -> None:
        row = self.setting(key)
        if key in NEVER_CHANGED or key in self.configBlackList.split(";"):
            raise ForbiddenError(f"{key}: is on the black list; set it in the property file")
        if len(text) > RUN_TIME_TEXT_MAX:
            raise ConfigError(f"{key}: a text of more than {RUN_TIME_TEXT_MAX} characters")
        value = parse_value(row, text)
        if row.acted and not row.run_time and not row.refusal:  # all legal refused ones mean "off"
            if value != self._values[key]:
                shown = MASK if row.secret else text.strip()
                raise ForbiddenError(
                    f"{key}={shown}: cannot be changed at run time; set it in "
                    "the property file and restart"
                )
            return
        self._values[key] = value
        self._given.add(key)

    def given(self, key: str) -> bool:
        """Whether this key was set, even if to the default."""
        return key in self._given

    def items(self) -> Iterator[tuple[str, str]]:
        """(key, text) of all settings in alphabetical order; Java's nulls are left out while
        unset."""
        for key, row in self._table.items():
            text = format_value(self._values[key])
            if text or not row.hidden_when_empty:
                yield key, text

    def shown(self) -> Iterator[tuple[str, str]]:
        """Like items(), with MASK instead of a secret that is set."""
        for key, text in self.items():
            yield key, MASK if self._table[key].secret and text else text

    def without_effect(self) -> list[str]:
        """Keys that are set to a value other than the default although rmq does not act on them."""
        return sorted(
            key
            for key in self._given
            if not self._table[key].acted and self._values[key] != self._table[key].default
        )

    @property
    def commit_log_directory(self) -> Path:
        """The directory of the log: storePathCommitLog, or commitlog in the store."""
        return Path(self.storePathCommitLog or f"{self.storePathRootDir}/commitlog").expanduser()

    @property
    def authenticates(self) -> bool:
        """Whether requests need a user."""
        return bool(self.authenticationEnabled or self.aclEnable)

    @property
    def authorizes(self) -> bool:
        """Whether the user's policies must allow a request."""
        return bool(self.authorizationEnabled or self.aclEnable)

    def check(self) -> None:
        """Checks relations between settings, which no single row can state; ConfigError when one is
        broken. Settings that depend on others are calculated before."""
        if "authorizationEnabled" not in self._table:
            return
        if self.authorizes and not self.authenticates:
            raise ConfigError(
                "authorizationEnabled=true: needs authenticationEnabled=true, or everybody could "
                "say that he is whoever may"
            )
        self._check_tls()
        if "mappedFileSizeCommitLog" not in self._table:
            return
        if 0 < self.rmqStuckReactorSeconds < STUCK_S_MIN:
            raise ConfigError(
                f"rmqStuckReactorSeconds={self.rmqStuckReactorSeconds}: 0 for no watch, or at "
                f"least {STUCK_S_MIN}: less is what a busy disk takes"
            )
        largest = self.maxMessageSize + RECORD_OVERHEAD_BYTES
        self._work_out(largest)
        # Log files may be smaller than a message (existing stores have such files): a message that
        # does not fit is refused when it comes.
        if self.rmqRingBytes < 2 * largest:
            raise ConfigError(
                f"rmqRingBytes={self.rmqRingBytes}: holds no message of maxMessageSize="
                f"{self.maxMessageSize}; needs at least {2 * largest}"
            )
        if self.rmqRingBytes & (self.rmqRingBytes - 1):
            raise ConfigError(f"rmqRingBytes={self.rmqRingBytes}: a power of two, such as 16777216")
        if self.diskSpaceCleanForciblyRatio > self.diskSpaceWarningLevelRatio:
            raise ConfigError(
                f"diskSpaceCleanForciblyRatio={self.diskSpaceCleanForciblyRatio}: at most "
                f"diskSpaceWarningLevelRatio={self.diskSpaceWarningLevelRatio}"
            )
        fits = self.brokerId > 0 if self.brokerRole == "SLAVE" else self.brokerId == 0
        if not (fits or self.enableControllerMode):  # with a controller, that decides both
            raise ConfigError(
                f"brokerId={self.brokerId}, brokerRole={self.brokerRole}: a slave has 1 or more, "
                "its own among the brokers of its brokerName, and a master has 0"
            )
        if self.enableControllerMode and not self.controllerAddr:
            raise ConfigError(
                "enableControllerMode=true: give controllerAddr=h1:9878;h2:9878, where "
                "`rmq controller` or RocketMQ's controller says who is master"
            )
        for key, off in (("minInSyncReplicas", (0, 1)), ("allAckInSyncStateSet", (False,))):
            if not self.enableControllerMode and self._values[key] not in off:
                raise ConfigError(
                    f"{key}={format_value(self._values[key])}: refused, rmq needs "
                    "enableControllerMode for it; leave it out, or use brokerRole=SYNC_MASTER with "
                    "inSyncReplicas"
                )
        if "," in self.storePathCommitLog:
            raise ConfigError(
                f"storePathCommitLog={self.storePathCommitLog}: several directories; rmq keeps its "
                "log in one, move the files there"
            )

    def _work_out(self, largest: int) -> None:
        """Calculates values that RocketMQ also adapts instead of refusing what a file says."""
        if not self.given("rmqRingBytes"):
            self._values["rmqRingBytes"] = max(
                self._table["rmqRingBytes"].default, 1 << (2 * largest - 1).bit_length()
            )
        entries = -(-self.mappedFileSizeConsumeQueue // QUEUE_ENTRY_BYTES)
        self._values["mappedFileSizeConsumeQueue"] = entries * QUEUE_ENTRY_BYTES

    def _check_tls(self) -> None:
        mode = self._values["tls.server.mode"]
        pair = [self._values[f"tls.server.{name}"] for name in ("certPath", "keyPath")]
        if any(pair) and not all(pair):
            raise ConfigError("tls.server.certPath and tls.server.keyPath: give both or none")
        makes_none = self._values["tls.test.mode.enable"] == "false"
        if mode == "enforcing" and makes_none and not all(pair):
            raise ConfigError(
                "tls.server.mode=enforcing, tls.test.mode.enable=false: give tls.server.certPath "
                "and tls.server.keyPath, or nobody could be served"
            )
        asks = self._values["tls.server.need.client.auth"]
        if asks == "require" and not self._values["tls.server.trustCertPath"]:
            raise ConfigError(
                "tls.server.need.client.auth=require: give tls.server.trustCertPath, or every "
                "certificate would do"
            )

        if mode == "enforcing" and asks == "require" and not self._values["tls.client.certPath"]:
            raise ConfigError(
                "tls.server.mode=enforcing with tls.server.need.client.auth=require: give "
                "tls.client.certPath and tls.client.keyPath, or this server's own requests to "
                "others are refused"
            )
        if (self._values["tls.client.authServer"] == "true"
                and not self._values["tls.client.trustCertPath"]):  # fmt: skip
            raise ConfigError(
                "tls.client.authServer=true: give tls.client.trustCertPath, or any certificate of "
                "any public authority would do"
            )

    def unknown(self, keys: Iterable[str]) -> str:
        """What to do about each of these keys, which the table does not have."""
        from difflib import get_close_matches

        lower = {name.lower(): name for name in self._table}
        said, strange = [], []
        for key in keys:
            near = get_close_matches(key.lower(), lower, n=1, cutoff=0.7)
            if near:
                said.append(f"{key}: no such setting. Did you mean {lower[near[0]]}?")
            else:
                strange.append(key)
        if strange:
            said.append(
                f"{', '.join(strange)}: no such setting. RocketMQ 5.5.0 has none here either: "
                f"leave {'it' if len(strange) == 1 else 'them'} out"
            )
        return " ".join(said)


def parse_value(row: Setting, text: str) -> Any:
    """The typed value of `text`; ConfigError names key, value and the allowed form."""
    text = text.strip()
    value: Any = text
    if row.kind == "bool":
        value = {"true": True, "false": False}.get(text.lower())
        form = "true or false"
    elif row.kind == "int":
        value = _number(text, int)
        form = f"a whole number from {row.low} to {row.high}"
        if value is not None and not row.low <= value <= row.high:
            value = None
    elif row.kind == "double":
        value = _number(text, float)
        form = "a number such as 0.5"
    elif row.kind == "choice":
        value = dict(row.choices).get(text.lower())
        form = "one of " + ", ".join(
            kept if name == kept.lower() else name for name, kept in row.choices
        )
    else:
        form = "text without control characters"
        if any(ord(character) < 32 for character in text):
            value = None
    if value is None:
        raise ConfigError(f"{row.key}={MASK if row.secret else text}: {form}")
    if row.refusal and value != row.default and value not in row.harmless:
        raise ConfigError(f"{row.key}={text}: refused, {row.refusal}")
    return value


def format_value(value: Any) -> str:
    """The value in the text form of property files."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


TLS_FILE = "tls.config.file"
NOT_OF_TLS_FILE = ("tls.server.mode", "tls.enable", TLS_FILE)


def load_properties(
    path: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    server: str = "broker",
) -> Settings:
    """The settings of a "broker", "namesrv" or "controller", checked: those of a property file
    (None: only defaults), and over them the overrides."""
    settings = Settings(table_of(server))
    if path is not None:
        _take(settings, java_properties.parse(_read(Path(path)), str(path)), path)
    for key, text in (overrides or {}).items():
        settings.set(key, text)
    _add_tls_file(settings)
    settings.check()
    return settings


def _add_tls_file(settings: Settings) -> None:
    """Adds the settings of tls.config.file, which override others, as in RocketMQ."""
    named = getattr(settings, TLS_FILE)
    if not named:
        return
    path = Path(named).expanduser()
    said = java_properties.parse(_read(path), str(path))
    for key in said:
        if not key.startswith("tls."):
            raise ConfigError(f"{path}: {key} is no setting of TLS")
    _take(settings, {k: text for k, text in said.items() if k not in NOT_OF_TLS_FILE}, path)


def _take(settings: Settings, said: Mapping[str, str], path: str | Path) -> None:
    """Takes the settings of a file; ConfigError names the file, and all unknown keys in it."""
    unknown = [key for key in said if key not in settings]
    if unknown:
        raise ConfigError(f"{path}: {settings.unknown(unknown)}")
    for key, text in said.items():
        try:
            settings.set(key, text)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None


def _number(text: str, kind: type[int] | type[float]) -> int | float | None:
    """The number in Java's notation; int() alone would also take 1_000 and Arabic digits."""
    body = text[1:] if text[:1] in ("-", "+") else text
    if not body.isascii() or not body.replace(".", "", kind is float).isdigit():
        return None
    return kind(text)
