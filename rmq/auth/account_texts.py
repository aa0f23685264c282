"""Account texts: keeps the JSON of each user and each ACL beside the object read from it, so that
only changed ones are read again. To read a table of ten thousand users takes seconds, during which
a deleted user would still be let in.

    texts = AccountTexts()
    accounts = texts.read(content)      the content of a file or from another server: an account
                                        whose text is unchanged is the same object as before
    texts.content(accounts)             the content for a file: an object that is unchanged keeps
                                        its text

plain_or_any() parses a file for read(): the members of "users" and "acls" stay text, which takes a
hundredth of the time that reading them takes.

Example: if only alice has changed in a file, read() reads only alice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from rmq.auth.accounts import Accounts
from rmq.auth.policy import Acl
from rmq.auth.user import User
from rmq.errors import ProtocolError
from rmq.format import fastjson

TABLES = ("users", "acls")
T = TypeVar("T")


class AccountTexts:
    """read() may run in any thread, but in one at a time; content() may run at the same time."""

    def __init__(self) -> None:
        self._users = _Texts[User](User.of)
        self._acls = _Texts[Acl](lambda _, policies: Acl.of(policies))

    def read(self, content: Mapping[Any, Any]) -> Accounts:
        """The accounts in the content; ProtocolError if it is none: permissions are not guessed."""
        accounts = Accounts()
        accounts.fill(
            self._users.read(_table(content, "users")), self._acls.read(_table(content, "acls"))
        )
        return accounts

    def content(self, accounts: Accounts) -> dict[str, Any]:
        """The content that read() takes, with the passwords; msgspec encodes it."""
        users, acls = accounts.tables()
        return {
            "users": self._users.written(users, User.members),
            "acls": self._acls.written(acls, Acl.members),
        }


class _Texts(Generic[T]):
    def __init__(self, read: Callable[[str, Any], T]) -> None:
        self._read = read
        self._known: dict[str, tuple[bytes, T]] = {}  # replaced as a whole

    def read(self, table: Mapping[Any, Any]) -> dict[str, T]:
        before, found = self._known, dict[str, tuple[bytes, T]]()
        for key, given in table.items():
            name, text = str(key), _text(given)
            known = before.get(name)
            if known is None or not text or known[0] != text:
                known = (text, self._read(name, _members(given)))
            found[name] = known
        self._known = found
        return {name: value for name, (_, value) in found.items()}

    def written(
        self, values: Mapping[str, T], members: Callable[[T], Any]
    ) -> dict[str, msgspec.Raw]:
        before, found = self._known, dict[str, tuple[bytes, T]]()
        for name, value in sorted(values.items()):
            known = before.get(name)
            if known is None or not known[0] or known[1] is not value:
                known = (msgspec.json.encode(members(value)), value)
            found[name] = known
        self._known = found
        return {name: msgspec.Raw(text) for name, (text, _) in found.items()}


def plain_or_any(data: bytes) -> Any:
    """The file's JSON object. If it is not plain JSON, fastjson reads it; ProtocolError if that
    fails, too."""
    try:
        data.decode()  # checks all of it, because members that stay text are not checked closely
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        return {
            name: msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            if name in TABLES
            else msgspec.json.decode(raw)
            for name, raw in members.items()
        }
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return fastjson.loads(data)


def _text(given: Any) -> bytes:
    """The member as one text, independent of its layout; empty: it cannot be compared."""
    try:
        if isinstance(given, msgspec.Raw):
            return msgspec.json.format(bytes(given), indent=-1)
        return msgspec.json.encode(given)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return b""


def _members(given: Any) -> Any:
    if not isinstance(given, msgspec.Raw):
        return given
    return fastjson.loads(bytes(given))


def _table(content: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
    table = content.get(name, {})
    if not isinstance(table, Mapping):
        raise ProtocolError(f"the accounts' member {name} is no object")
    return table
