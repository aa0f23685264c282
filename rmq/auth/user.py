"""User: an account. Its password is the key with which its requests are signed, so it is kept as it
is, and shown only to those who have the right to see it.

Example: User("alice", "secret", UserType.NORMAL, UserStatus.ENABLE).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rmq.errors import ProtocolError

NAME_CHARACTERS_MAX = 255
PASSWORD_CHARACTERS_MAX = 255


class UserType(Enum):
    SUPER = "Super"  # may do everything
    NORMAL = "Normal"


class UserStatus(Enum):
    ENABLE = "enable"
    DISABLE = "disable"


_TYPES = {each.value.lower(): each for each in UserType}
_STATES = {each.value: each for each in UserStatus}


@dataclass(frozen=True)
class User:
    name: str
    password: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    @classmethod
    def of(cls, name: str, members: Mapping[Any, Any], before: User | None = None) -> User:
        """Reads a user. Members that are not given stay as in `before`, or mean Normal and enabled.
        ProtocolError, with RocketMQ's text, if it is no user."""
        check_name(name)
        if not isinstance(members, Mapping):
            raise ProtocolError(f"the user {name} is no object")
        password = members.get("password") or (before.password if before else "")
        if not isinstance(password, str) or not password.strip():
            raise ProtocolError("password can not be blank")
        if len(password) > PASSWORD_CHARACTERS_MAX:
            raise ProtocolError(f"the password is longer than {PASSWORD_CHARACTERS_MAX} characters")
        return cls(
            name,
            password,
            _one_of(_TYPES, "userType", members, before.type if before else UserType.NORMAL),
            _one_of(_STATES, "userStatus", members, before.status if before else UserStatus.ENABLE),
        )

    def members(self) -> dict[str, str]:
        """The members with the password, for the file and for those who may see it."""
        return {
            "username": self.name,
            "password": self.password,
            "userType": self.type.value,
            "userStatus": self.status.value,
        }

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        return self.status is UserStatus.ENABLE


def check_name(name: str) -> None:
    if not name.strip():
        raise ProtocolError("username can not be blank")
    if len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
        raise ProtocolError(
            f"the username {name[:100]!r} has more than {NAME_CHARACTERS_MAX} characters, or one "
            "that cannot be printed"
        )


def _one_of(texts: Mapping[str, Any], member: str, members: Mapping[Any, Any], default: Any) -> Any:
    given = members.get(member)
    if given is None or given == "":
        return default
    found = texts.get(given.lower()) if isinstance(given, str) else None
    if found is None:
        known = ", ".join(each.value for each in texts.values())
        raise ProtocolError(f"{member} is {given!r:.100}: one of {known}")
    return found
