"""Plain ACL: the files of RocketMQ's ACL 1.0 (4.4 to 5.2), read as accounts.

    conf/plain_acl.yml and every .yml and .yaml under conf/acl

    globalWhiteRemoteAddresses: [10.10.103.*]         requests from there may do everything
    accounts:
      - accessKey: alice12
        secretKey: 12345678
        whiteRemoteAddress: 10.0.0.*                  from there the name is enough for everything
        admin: false                                  true: a Super user
        defaultTopicPerm: DENY                        Topic:*, a Default policy
        defaultGroupPerm: SUB                         Group:*, a Default policy
        topicPerms: [orders=PUB|SUB, bills=DENY]      Topic:orders, Custom
        groupPerms: [g=SUB]                           Group:g

PUB and SUB become Pub and Sub, DENY is Deny All. A default applies only to names that are not
listed: where it would allow more for a listed name, the Default policy denies it for that name. An
access key counts in the first file that has it. Names are whole: ACL 1.0 knows no patterns.

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
# ACL 1.0 does not ask for a permission to write traces.
_TRACES = PolicyEntry(topic(names.TRACE_TOPIC), frozenset((Action.PUB,)), Decision.ALLOW)


def files(plain_acl: Path, directory: Path) -> list[Path]:
    """The file, if it exists, and those in and below the directory, ordered by name."""
    found = [plain_acl] if plain_acl.exists() else []
    return found + sorted(
        path
        for path in (directory.rglob("*") if directory.is_dir() else ())
        if path.suffix in (".yml", ".yaml") and path.is_file() and path != plain_acl
    )


class PlainAclFiles:
    """The files of a server that uses them (aclEnable). Reads block."""

    def __init__(self, path: Path) -> None:
        """path: of plain_acl.yml; the other files are in the directory acl beside it."""
        self.path = path
        self._taken: Stamps | None = None  # of the files read last, successfully or not
        self._seen: Stamps | None = None  # at the last look

    def read(self) -> FixedAccounts:
        """Reads the files at a start. ConfigError if they cannot be used."""
        self._taken = self._stamps()
        return self._read(self._taken)

    def changed(self) -> FixedAccounts | None:
        """The accounts, if the files have changed; None: they have not, or somebody is writing one:
        a change counts when it is the same at two calls. ConfigError if the files cannot be used,
        once for each change; a file that could not be read at all is read again."""
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
            self._taken = None  # the files have changed meanwhile
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
            with contextlib.suppress(FileNotFoundError):  # the file has just gone
                stat = path.stat()
                found.append((path, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size))
        return tuple(found)


def read(paths: Iterable[Path]) -> FixedAccounts:
    """The accounts in these files; ConfigError, which names file and account, if one is wrong."""
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
    """Whether the default allows something that the entry of a listed resource does not."""
    is_open = default.decision is listed.decision is Decision.ALLOW
    return is_open and not default.actions <= listed.actions


def _permission(given: Any) -> tuple[frozenset[Action], Decision]:
    """The actions and decision of a permission; anything but PUB and SUB denies, as in RocketMQ."""
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
        # Every value is read as a text, because a secret of digits is no number.
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
