"""Plain ACL: the files of RocketMQ's ACL 1.0 (4.4 to 5.2), read as accounts.

    conf/plain_acl.yml and every .yml and .yaml under conf/acl

    globalWhiteRemoteAddresses: [10.10.103.*]         who comes from there may do everything
    accounts:
      - accessKey: alice12
        secretKey: 12345678
        whiteRemoteAddress: 10.0.0.*                  the name is enough from there, for everything
        admin: false                                  true: a Super user
        defaultTopicPerm: DENY                        Topic:*, a Default policy
        defaultGroupPerm: SUB                         Group:*, likewise
        topicPerms: [orders=PUB|SUB, bills=DENY]      Topic:orders, Custom
        groupPerms: [g=SUB]                           Group:g

PUB and SUB become Pub and Sub, DENY is Deny All. A default is for what is not listed: where it
would allow more of what is, the Default policy denies that by its whole name. An access key counts
in the first file that has it. Names are whole ones: ACL 1.0 knows no patterns of them.

Example: read([Path("conf/plain_acl.yml")]).users["alice12"].password is "12345678".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rmq import names
from rmq.auth.fixed_accounts import FixedAccounts
from rmq.auth.policy import Acl, Action, Decision, PolicyEntry, PolicyType
from rmq.auth.resource import Pattern, Resource, ResourceType, group, topic
from rmq.auth.user import User, UserType
from rmq.auth.white_list import WhiteList
from rmq.errors import ConfigError, ProtocolError

KEY_CHARACTERS_MIN = 7  # of accessKey and secretKey, as RocketMQ demands
FILE_BYTES_MAX = 64 << 20

Stamps = tuple[tuple[Path, int, int, int, int], ...]

_ACTIONS = {
    "PUB": frozenset((Action.PUB,)),
    "SUB": frozenset((Action.SUB,)),
    "PUB|SUB": frozenset((Action.PUB, Action.SUB)),
    "SUB|PUB": frozenset((Action.PUB, Action.SUB)),
}
_DENIED = (frozenset((Action.ALL,)), Decision.DENY)
# ACL 1.0 asks nobody for a right to trace.
_TRACES = PolicyEntry(topic(names.TRACE_TOPIC), frozenset((Action.PUB,)), Decision.ALLOW)


def files(plain_acl: Path, directory: Path) -> list[Path]:
    """The file, if it is there, and those of the directory and below it, by name."""
    found = [plain_acl] if plain_acl.exists() else []
    return found + sorted(
        path
        for path in (directory.rglob("*") if directory.is_dir() else ())
        if path.suffix in (".yml", ".yaml") and path.is_file() and path != plain_acl
    )


class PlainAclFiles:
    """The files of a server that goes by them (aclEnable). Reads block."""

    def __init__(self, path: Path) -> None:
        """path: of plain_acl.yml; the others are in the directory acl beside it."""
        self.path = path
        self._taken: Stamps | None = None  # of what was read last, whatever came of it
        self._seen: Stamps | None = None  # at the look before

    def read(self) -> FixedAccounts:
        """At a start. ConfigError for what cannot be used."""
        self._taken = self._stamps()
        return self._read(self._taken)

    def changed(self) -> FixedAccounts | None:
        """None: all files are as they were, or somebody is writing one: what counts is what stays
        from one call to the next. ConfigError for what cannot be used, once for each change; it is
        read again when it could not be read at all."""
        stamps, seen = self._stamps(), self._seen
        self._seen = stamps
        if stamps == self._taken or stamps != seen:
            return None
        self._taken = stamps
        try:
            found = self._read(stamps)
        except ConfigError as error:
            if isinstance(error.__cause__, OSError):
                self._taken = None
            raise
        if self._stamps() != stamps:
            self._taken = None  # it has changed meanwhile
            return None
        return found

    def _read(self, stamps: Stamps) -> FixedAccounts:
        if not any(path == self.path for path, *_ in stamps):
            raise ConfigError(f"{self.path} is not there, or cannot be read")
        found = read(path for path, *_ in stamps)
        for name, acl in found.acls.items():
            entries = acl.policies.get(PolicyType.CUSTOM, ())
            if all(each.resource != _TRACES.resource for each in entries):
                found.acls[name] = acl.merged(PolicyType.CUSTOM, [_TRACES])
        return found

    def _stamps(self) -> Stamps:
        found = []
        for path in files(self.path, self.path.parent / "acl"):
            with contextlib.suppress(FileNotFoundError):  # it has just gone
                stat = path.stat()
                found.append((path, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size))
        return tuple(found)


def read(paths: Iterable[Path]) -> FixedAccounts:
    """ConfigError, with the file and the account, for what is not as it has to be."""
    found = FixedAccounts()
    for path in paths:
        content = _content(path)
        for each in _list(path, content, "globalWhiteRemoteAddresses"):
            found.white.append(_white_list(path, "globalWhiteRemoteAddresses", each))
        for account in _list(path, content, "accounts"):
            if not isinstance(account, Mapping):
                raise ConfigError(f"{path}: an account is no list of keys and values")
            _add(found, path, account)
    return found


def _add(found: FixedAccounts, path: Path, account: Mapping[Any, Any]) -> None:
    name, password = _text(account.get("accessKey")), _text(account.get("secretKey"))
    if len(name) < KEY_CHARACTERS_MIN or len(password) < KEY_CHARACTERS_MIN:
        raise ConfigError(
            f"{path}: account {name[:100]!r}: accessKey and secretKey need {KEY_CHARACTERS_MIN} "
            "characters at least"
        )
    if name in found.users:
        return
    kind = UserType.SUPER if _text(account.get("admin")).lower() == "true" else UserType.NORMAL
    try:
        found.users[name] = User.of(name, {"password": password, "userType": kind.value})
    except ProtocolError as error:
        raise ConfigError(f"{path}: account {name[:100]!r}: {error}") from None
    custom = [
        *(_entry(topic, each, path, name) for each in _list(path, account, "topicPerms")),
        *(_entry(group, each, path, name) for each in _list(path, account, "groupPerms")),
    ]
    default = {
        kind_of: PolicyEntry(Resource(kind_of, "", Pattern.ANY), *_permission(account.get(member)))
        for kind_of, member in (
            (ResourceType.TOPIC, "defaultTopicPerm"),
            (ResourceType.GROUP, "defaultGroupPerm"),
        )
    }
    closed = [
        PolicyEntry(each.resource, *_DENIED)
        for each in custom
        if _adds(default[each.resource.type], each)
    ]
    acl = Acl().merged(PolicyType.CUSTOM, custom)
    found.acls[name] = acl.merged(PolicyType.DEFAULT, [*default.values(), *closed])
    white = _text(account.get("whiteRemoteAddress"))
    if white:
        found.unsigned[name] = _white_list(path, "whiteRemoteAddress", white)


def _entry(make: Any, given: Any, path: Path, account: str) -> PolicyEntry:
    name, equals, permission = _text(given).partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{path}: account {account[:100]!r}: {given!r:.100} is not name=PUB|SUB")
    return PolicyEntry(make(name.strip()), *_permission(permission))


def _adds(default: PolicyEntry, listed: PolicyEntry) -> bool:
    """Whether the default allows what the entry of a resource does not speak of."""
    is_open = default.decision is listed.decision is Decision.ALLOW
    return is_open and not default.actions <= listed.actions


def _permission(given: Any) -> tuple[frozenset[Action], Decision]:
    """Whatever is not PUB or SUB denies, as with RocketMQ."""
    actions = _ACTIONS.get(_text(given))
    if actions is None:
        return _DENIED
    return actions, Decision.ALLOW


def _content(path: Path) -> Mapping[Any, Any]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError(f"{path} cannot be read: pip install 'rmq[acl]' for YAML") from None
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ConfigError(f"{path} has more than {FILE_BYTES_MAX} bytes")
        # Every value is a text: a secret of digits is no number.
        content = yaml.load(path.read_text("utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from None
    if content is None or content == "":
        return {}
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path} holds no keys and values")
    return content


def _list(path: Path, members: Mapping[Any, Any], name: str) -> list[Any]:
    found = members.get(name) or []
    if not isinstance(found, list):
        raise ConfigError(f"{path}: {name} is no list")
    return found


def _white_list(path: Path, name: str, given: Any) -> WhiteList:
    try:
        return WhiteList.of(_text(given))
    except ProtocolError as error:
        raise ConfigError(f"{path}: {name}: {error}") from None


def _text(given: Any) -> str:
    return given.strip() if isinstance(given, str) else ""
