"""Account texts: the JSON of each user and each ACL beside what was read of it, so that a change of
one costs what one costs. A table of ten thousand users takes seconds to read, and whoever was
deleted would be let in that long.

    texts = AccountTexts()
    accounts = texts.read(content)      of a file, or of another server: what has the text that it
                                        had is the object of before
    texts.content(accounts)             for a file: what is still that object has its text

plain_or_any() is how a file is taken apart for read(): the members of "users" and "acls" stay
text, which takes a hundredth of the time that reading them does.

Example: read() of a file in which alice alone has changed reads alice alone.
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
    """read() may run in any thread, but in one at a time; content() beside it."""

    def __init__(self) -> None:
        self._users = _Texts[User](User.of)
        self._acls = _Texts[Acl](lambda _, policies: Acl.of(policies))

    def read(self, content: Mapping[Any, Any]) -> Accounts:
        """ProtocolError for what is none: who may do what is not guessed."""
        accounts = Accounts()
        accounts.fill(
            self._users.read(_table(content, "users")), self._acls.read(_table(content, "acls"))
        )
        return accounts

    def content(self, accounts: Accounts) -> dict[str, Any]:
        """What read() takes, as msgspec encodes it; with the passwords."""
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
    """The file's object. What is no plain JSON is read by fastjson, and ProtocolError if it is none
    of its either."""
    try:
        data.decode()  # what stays text is not looked at so closely
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
    """One text, however it is laid out; empty: nothing that could be compared."""
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
